"""`gpus: 0.25`: four trials share a GPU, by Ray's count of it (no device is needed: it only counts)."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from keel_lab.schedule.ray_cluster import OBJECT_STORE, _private_settings
from keel_lab.schedule.ray_executor import RayExecutor
from keel_lab.schedule.scratch import Scratch
from keel_lab.settings import Resources
from keel_lab.store.root import Root
from tests.toy_sweep import MEMORY, toy_task, toy_trial

PATIENCE = 300.0


@pytest.fixture
def one_gpu(monkeypatch):
    """A Ray of this process that takes itself to have eight CPUs and a GPU."""
    os.environ.update(_private_settings())
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.03")  # six seconds a trial
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    import ray

    scratch = Scratch(sockets=True)
    ray.init(
        address="local", num_cpus=8, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        object_store_memory=OBJECT_STORE, _temp_dir=str(scratch.folder), _node_ip_address="127.0.0.1",
    )  # fmt: skip
    yield
    ray.shutdown()
    scratch.close()


def test_four_trials_share_a_gpu(one_gpu, tmp_path):
    resources, root = Resources(gpus=0.25, memory=MEMORY), Root.open(tmp_path)
    results = []
    with closing(RayExecutor(resources)) as executor:
        assert executor.slots == 4
        for seed in range(6):
            executor.submit(toy_task(toy_trial(seed=seed).model_copy(update={"resources": resources}), root))
        until = time.monotonic() + PATIENCE
        while len(results) < 6:
            assert time.monotonic() < until
            done = executor.next_done(0.5)
            results += [] if done is None else [done.result]
    spans = [(result.execution["started_at"], result.execution["finished_at"]) for result in results]
    at_once = [sum(start <= moment < end for start, end in spans) for moment, _ in spans]
    assert {result.execution["gpu"] for result in results} == {"0"}
    assert 2 <= max(at_once) <= 4, spans
