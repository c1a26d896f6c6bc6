"""What only the Ray executor promises: warm workers, isolation from deaths, refusals."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest

from keel_lab.errors import UsageError
from keel_lab.result import FailureKind, Outcome
from keel_lab.schedule import ray_attempts
from keel_lab.schedule.ray_cluster import capacity, demand, fits, refusal
from keel_lab.settings import Resources
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from tests.toy_sweep import MEMORY, toy_task, toy_trial

GIB = 2**30


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    from keel_lab.schedule.ray_executor import RayExecutor

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEEL_TOY_SIDE", str(tmp_path_factory.mktemp("side")))
        made = RayExecutor(toy_trial().resources)
        yield made
        made.close()


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path / "store")


def collect(executor, count):
    until = time.monotonic() + 60
    done = []
    while len(done) < count and time.monotonic() < until:
        executor.progress()
        ended = executor.next_done(0.2)
        done += [ended] if ended is not None else []
    assert len(done) == count
    return done


def test_workers_stay_warm_and_have_their_threads(executor, root):
    count = 4 * executor.slots
    for seed in range(count):
        executor.submit(toy_task(toy_trial(seed=seed), root))
    done = collect(executor, count)
    runs = [(ended.result.execution["pid"], ended.result.execution["runs_here"]) for ended in done]
    processes = {pid for pid, _ in runs}
    assert len(processes) <= executor.slots, "a new process for each trial pays the imports again"
    assert os.getpid() not in processes
    for process in processes:  # the module's own counter went on from trial to trial
        assert sorted(n for pid, n in runs if pid == process) == list(
            range(1, 1 + sum(pid == process for pid, _ in runs))
        )
    assert {ended.result.execution["threads"] for ended in done} == {"1"}


def test_a_killed_worker_fails_its_trial_only(executor, root):
    killed, other = toy_trial("toy_kill_once", seed=1), toy_trial(seed=21)
    executor.submit(toy_task(killed, root))
    executor.submit(toy_task(other, root))
    by_id = {ended.task.trial.id: ended for ended in collect(executor, 2)}
    assert by_id[killed.id].failure.kind is FailureKind.CRASH
    assert "worker process died" in by_id[killed.id].failure.message
    assert by_id[other.id].result.outcome is Outcome.COMPLETED
    executor.submit(toy_task(killed, root, attempt=2))
    assert collect(executor, 1)[0].result.outcome is Outcome.COMPLETED
    assert len(Trials(root).curve(killed.id)) == 200


def process_of(executor, trial, past=0):
    """The worker that runs a trial, once it has taken so many steps."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for item in executor.progress():
            if item.trial_id == trial.id and item.step >= past:
                return item.info["pid"]
        assert executor.next_done(0.05) is None
    raise AssertionError("the trial never came to that")


def test_sigterm_of_a_worker_checkpoints_its_trial_and_the_worker_lives(executor, root):
    trial = toy_trial(seed=31, steps=50_000)
    executor.submit(toy_task(trial, root))
    pid = process_of(executor, trial, past=1)
    os.kill(pid, signal.SIGTERM)
    (ended,) = collect(executor, 1)
    assert ended.failure.kind is FailureKind.PREEMPTED
    step = Trials(root).checkpoint_step(trial.id)
    assert step > 0
    assert ended.failure.message == f"its process got SIGTERM; step {step} is stored"
    executor.submit(toy_task(toy_trial(seed=32), root))
    assert collect(executor, 1)[0].result.outcome is Outcome.COMPLETED
    os.kill(pid, 0)


def test_the_kernel_refusing_memory_is_told_as_such(executor, root):
    executor.submit(toy_task(toy_trial("toy_hungry"), root))
    (ended,) = collect(executor, 1)
    assert ended.failure.kind is FailureKind.OOM
    assert ended.failure.message.startswith("MemoryError")


def test_an_attempt_that_is_over_its_time_checkpoints_and_one_that_hangs_is_killed(executor, root, monkeypatch):
    monkeypatch.setattr(ray_attempts, "GRACE", 1.0)
    slow, hanging = toy_trial(seed=33, steps=100_000), toy_trial("toy_hang", seed=34)
    for trial in (slow, hanging):
        executor.submit(replace(toy_task(trial, root), seconds=1.0))
        (ended,) = collect(executor, 1)
        assert (ended.task.trial, ended.failure.kind) == (trial, FailureKind.TIMEOUT)
        said = ended.failure.message
        assert said.startswith("the 1 s of budget.trial_time were over")
        assert said.endswith("did not stop: killed" if trial is hanging else "is stored")
    assert Trials(root).checkpoint_step(slow.id) > 0
    executor.submit(toy_task(hanging, root, attempt=2))
    assert collect(executor, 1)[0].result.outcome is Outcome.COMPLETED


def test_a_trial_is_checked_again_if_its_process_dies_meanwhile(executor):
    assert executor.preflight([toy_trial("toy_unlucky"), toy_trial()]) == []
    (problem,) = executor.preflight([toy_trial("toy_impossible")])
    assert "one too many" in problem


def test_workers_are_not_niced_and_import_what_the_driver_imports(executor):
    import ray

    def look() -> tuple[int, str]:
        import tests.toy_trainer

        return os.nice(0), tests.toy_trainer.__file__

    import tests.toy_trainer

    assert ray.get(ray.remote(look).options(num_cpus=1).remote()) == (os.nice(0), tests.toy_trainer.__file__)


def test_what_can_never_fit_is_refused_before_anything_runs(executor, root):
    from keel_lab.schedule.ray_executor import RayExecutor

    with pytest.raises(UsageError, match=r"a trial asks for 6400 CPUs, 0 GPUs and 0\.0625 GiB, which no node"):
        RayExecutor(Resources(cpus=6400, memory=MEMORY))
    with pytest.raises(UsageError, match="lower `resources` in the sweep file"):
        executor.submit(toy_task(toy_trial(cpus=6400), root))
    assert executor.next_done(0.0) is None


def test_an_address_without_ray_is_an_error_at_once():
    import socket

    from keel_lab.schedule.ray_cluster import RayCluster

    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"no Ray can be joined at {address}: .*--ray-address"):
            RayCluster._join(RayCluster.__new__(RayCluster), address)


def test_resources_of_several_kinds_are_counted_together():
    node = {"CPU": 8.0, "GPU": 2.0, "memory": 12.0 * GIB}
    assert fits(node, Resources(cpus=1, memory=1 * GIB)) == 8
    assert fits(node, Resources(cpus=1, memory=5 * GIB)) == 2
    assert fits(node, Resources(cpus=1, gpus=0.5, memory=1 * GIB)) == 4
    assert fits(node, Resources(cpus=16, memory=1 * GIB)) == 0
    assert fits({"CPU": 4.0, "memory": 12.0 * GIB}, Resources(gpus=1.0)) == 0
    assert demand(Resources(cpus=2, gpus=0.5, memory=GIB)) == {"CPU": 2.0, "GPU": 0.5, "memory": float(GIB)}
    assert "8 CPUs, 2 GPUs, 12 GiB" in str(refusal([node], Resources(cpus=64)))
    assert "no node" in str(refusal([], Resources()))


def test_the_workers_of_a_trial_may_be_on_several_nodes():
    nodes = [{"CPU": 3.0, "memory": 4.0 * GIB}, {"CPU": 3.0, "memory": 1.0 * GIB}]
    assert capacity(nodes, Resources(workers=2, memory=GIB)) == 2
    assert capacity(nodes, Resources(workers=4, memory=GIB)) == 1
    assert capacity(nodes, Resources(workers=5, memory=GIB)) == 0
    said = str(refusal(nodes, Resources(workers=5, memory=GIB)))
    assert (
        "a trial asks for 5 workers of 1 CPUs, 0 GPUs and 1 GiB each, which the nodes of this Ray do not have" in said
    )
