"""Real processes: killed with -9 at any moment, or writing at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keel_lab.errors import UsageError
from keel_lab.store import index
from keel_lab.store.lease import hold, holder
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

REPOSITORY = Path(__file__).resolve().parents[2]
PRELUDE = """
import logging, os, pathlib, subprocess, sys, time
from keel_lab.curve import Curve, Step
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.result import Outcome, TrialResult
from keel_lab.store.lease import hold
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

logging.basicConfig(level="WARNING")
root = Root.open(sys.argv[1])
trials = Trials(root)

def commit(trial_id, steps):
    curve = Curve()
    for i in range(1, steps + 1):
        curve.append(Step(i, 1.0 / i, 1e-4 * i), 0.5)
    verdict = Verdict(Status.HEALTHY)
    trials.commit(TrialResult(trial_id, Outcome.COMPLETED, steps, verdict, Thresholds().model_dump()), curve)
    return curve
"""
WRITER = """
checkpoint = pathlib.Path(sys.argv[2])
for steps in range(1, 100_000):
    curve = commit("trial", steps)
    checkpoint.write_bytes(b"%d" % steps * 1000)
    trials.put_checkpoint("trial", steps, checkpoint, curve)
    Sweeps(root).set_delivered("sweep", {"steps": steps, "filling": "x" * 20_000})
    trials.results(["trial"])
    if steps == 1:
        print("started", flush=True)
"""
HOLDER = """
with hold(root, "sweep"):
    forked = os.fork()
    if forked == 0:
        time.sleep(60)
        os._exit(0)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    print(forked, child.pid, flush=True)
    time.sleep(60)
"""
RIVAL = """
mine, other = sys.argv[2:]
for number in range(30):
    commit(f"{mine}{number}", 2)
    found = trials.results([f"{who}{n}" for who in (mine, other) for n in range(30)])
    assert {f"{mine}{n}" for n in range(number + 1)} <= set(found), sorted(found)
"""


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_a_killed_writer_leaves_the_old_or_the_new_of_everything(tmp_path, caplog):
    root = Root.open(tmp_path / "store")
    for moment in (0.0, 0.013, 0.029, 0.051):
        writer = start(WRITER, root.uri, tmp_path / "trainer.ckpt")
        assert writer.stdout.readline() == "started\n", writer.stderr.read()
        time.sleep(moment)
        writer.kill()
        assert writer.wait() == -signal.SIGKILL
        trials = Trials(root)
        result, checkpoint = trials.result("trial"), trials.checkpoint("trial", tmp_path)
        assert trials.results(["trial"]) == {"trial": result}
        assert len(trials.curve("trial")) == result.steps
        assert checkpoint.step == len(checkpoint.curve)
        assert checkpoint.file.read_bytes() == b"%d" % checkpoint.step * 1000
        assert Sweeps(root).delivered("sweep").keys() in ({"steps", "filling"}, set())
    assert caplog.text == ""


def test_a_live_driver_refuses_and_a_dead_one_is_free_though_its_children_live(tmp_path):
    root = Root.open(tmp_path)
    driver = start(HOLDER, root.uri)
    children = [int(pid) for pid in driver.stdout.readline().split()]
    try:
        assert len(children) == 2, driver.stderr.read()
        assert holder(root, "sweep")["pid"] == driver.pid
        with pytest.raises(UsageError, match=rf"sweep sweep is being run by pid {driver.pid} on host "):
            hold(root, "sweep").__enter__()
        driver.kill()
        driver.wait()
        for pid in children:
            os.kill(pid, 0)  # still there
        assert holder(root, "sweep") is None
        with hold(root, "sweep"):
            assert holder(root, "sweep")["pid"] == os.getpid()
    finally:
        driver.kill()
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def test_two_drivers_writing_the_index_at_once(tmp_path):
    root = Root.open(tmp_path)
    rivals = [start(RIVAL, root.uri, *names) for names in (("a", "b"), ("b", "a"))]
    for rival in rivals:
        _, said = rival.communicate()
        assert (rival.returncode, said) == (0, "")
    ids = {f"{who}{number}" for who in "ab" for number in range(30)}
    assert set(index.Index(root).rows()) == ids
    assert root.list("index") == ["results.parquet"]
    assert json.loads(root.read("trials/a0/result.json"))["steps"] == 2
