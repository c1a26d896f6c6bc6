"""Real processes, real signals: whatever is killed, finished trials stay finished and results are the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.schedule.summary import RunSummary
from keel_lab.settings import Budget
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import NullTracker
from tests.toy_sweep import killable_sweep, outcome, sweep_of_a_killed_worker
from tests.toy_trainer import starts

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds; only ever waited for when something is broken


class Driver:
    """A driver in a process group of its own, as a terminal would make one, on a store under `folder`."""

    def __init__(self, folder: Path, *options: str, sleep: float = 0.0) -> None:
        self.root = Root.open(folder / "store")
        self.side = folder / "side"
        self._log = folder / "stderr.txt"
        environment = {**os.environ, "KEEL_TOY_SIDE": str(self.side), "KEEL_TOY_SLEEP": str(sleep)}
        environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *os.environ.get("PYTHONPATH", "").split(":")])
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.toy_sweep", str(folder / "store"), *options],
                cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Waits for a moment of the run."""
        until = time.monotonic() + PATIENCE
        while not true():
            assert self._process.poll() is None, f"the driver ended early:\n{self.log}"
            assert time.monotonic() < until, f"it never came to that:\n{self.log}"
            time.sleep(0.01)

    def signal_group(self, number: int) -> None:
        """What a terminal does on Ctrl-C: every process of the group gets the signal."""
        os.killpg(self._process.pid, number)

    def signal(self, number: int) -> None:
        """A signal to the driver alone."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9 of the driver alone."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def end(self) -> tuple[int, str]:
        """Exit code and standard output."""
        output, _ = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, output

    @property
    def log(self) -> str:
        """Standard error."""
        return self._log.read_text()

    @property
    def done(self) -> set[str]:
        """Ids of the trials that have their result."""
        return set(Trials(self.root).results([planned.trial.id for planned in killable_sweep().trials]))

    def checkpoints(self) -> dict[str, int]:
        """The step of each stored checkpoint, by trial."""
        ids = [planned.trial.id for planned in killable_sweep().trials]
        stored = {trial_id: Trials(self.root).checkpoint(trial_id, self.side) for trial_id in ids}
        return {trial_id: checkpoint.step for trial_id, checkpoint in stored.items() if checkpoint is not None}

    def started(self) -> dict[str, int]:
        """How often each trial was started."""
        return {planned.trial.id: len(starts(self.side, planned.trial.id)) for planned in killable_sweep().trials}


def run_here(sweep: StoredSweep, root: Root) -> RunSummary:
    """Runs what is left of a sweep in this process, which needs no Ray to start."""
    executor, display, proposer = LocalExecutor(), PlainLines(sys.stderr), ListProposer(sweep.trials)
    with lease.hold(root, sweep.name) as held:
        return SweepRun(sweep, root, executor, NullTracker(), proposer, display, Budget(), Interrupts()).run(held)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Root:
    """The results of `killable_sweep`, never disturbed."""
    root = Root.open(tmp_path_factory.mktemp("undisturbed"))
    run_here(killable_sweep(), root)
    return root


def test_kill_9_of_the_driver_at_several_moments(tmp_path, undisturbed, monkeypatch):
    trials = [planned.trial for planned in killable_sweep().trials]
    finished: dict[str, int] = {}
    for results in (0, 1, 3):  # killed with so many results there, and two trials in flight
        driver = Driver(tmp_path, sleep=0.008)
        running = sum(driver.started().values())
        driver.wait_until(lambda d=driver, n=results, r=running: len(d.done) >= n and sum(d.started().values()) > r)
        driver.kill()
        assert len(driver.done) < len(trials), "it was killed too late to test anything"
        time.sleep(3)  # orphaned workers may still finish what they have
        for trial_id, count in finished.items():
            assert driver.started()[trial_id] == count, "a finished trial was run again"
        finished = {trial_id: driver.started()[trial_id] for trial_id in driver.done}
    monkeypatch.setenv("KEEL_TOY_SIDE", str(driver.side))
    summary = run_here(killable_sweep(), driver.root)
    assert (summary.completed, summary.diverged, summary.left, summary.exit_code) == (3, 3, 0, 0)
    assert summary.reused == len(finished)
    for trial_id, count in finished.items():
        assert driver.started()[trial_id] == count, "a finished trial was run again"
    for trial in trials:
        assert outcome(driver.root, trial) == outcome(undisturbed, trial)
    judged, expected = (
        Sweeps(root).judgements("toys", killable_sweep().thresholds) for root in (driver.root, undisturbed)
    )
    assert judged == expected


def test_kill_9_of_a_worker_retries_its_trial_and_no_other_notices(tmp_path, undisturbed):
    driver = Driver(tmp_path, "--kill-worker")
    code, output = driver.end()
    assert code == 0, driver.log
    summary = json.loads(output)  # the only thing on standard output, whatever Ray has to say of the death
    assert (summary["completed"], summary["failed"]) == (4, 0)
    killed, *others = [planned.trial for planned in sweep_of_a_killed_worker().trials]
    assert starts(driver.side, killed.id) == [0, 25]
    assert "attempt 2 follows" in driver.log
    assert len(Trials(driver.root).attempts(killed.id)) == 1
    assert [step.step for step in Trials(driver.root).curve(killed.id)] == list(range(1, 201))
    for trial in others:
        assert starts(driver.side, trial.id) == [0]
        assert outcome(driver.root, trial) == outcome(undisturbed, trial)


def test_the_first_signal_stops_gracefully_and_a_resume_ends_with_the_same_bytes(tmp_path, undisturbed, monkeypatch):
    driver = interrupted(tmp_path, 0, lambda driver: driver.signal_group(signal.SIGINT), 130)  # as a terminal does
    before = driver.checkpoints()
    assert len(before) == 2
    assert all(0 < step < 200 for step in before.values())
    interrupted(tmp_path, 2, lambda driver: driver.signal(signal.SIGTERM), 143)  # as a supervisor does
    for trial_id, step in before.items():
        assert starts(driver.side, trial_id) == [0, step]
    after = driver.checkpoints()
    assert all(before[trial_id] < after[trial_id] < 200 for trial_id in before)
    monkeypatch.setenv("KEEL_TOY_SIDE", str(driver.side))
    assert run_here(killable_sweep(), driver.root).exit_code == 0
    for planned in killable_sweep().trials:
        assert outcome(driver.root, planned.trial) == outcome(undisturbed, planned.trial)
    for trial_id, step in before.items():
        assert starts(driver.side, trial_id) == [0, step, after[trial_id]]


def interrupted(folder: Path, starts_before: int, interrupt: Callable[[Driver], None], code: int) -> Driver:
    """A driver that was interrupted while two trials ran, at 20 ms a step."""
    driver = Driver(folder, sleep=0.02)
    driver.wait_until(lambda: sum(driver.started().values()) == starts_before + 2)
    time.sleep(0.5)  # some steps
    interrupt(driver)
    ended, output = driver.end()
    assert ended == code, driver.log
    summary = json.loads(output)
    assert summary["left"] == 6
    assert summary["reason"] == f"interrupted by {signal.Signals(code - 128).name}"
    return driver


def test_the_second_ctrl_c_stops_now(tmp_path):
    driver = Driver(tmp_path, sleep=3600.0)  # no step ever ends: nothing can stop gracefully
    driver.wait_until(lambda: sum(driver.started().values()) == 2)
    driver.signal_group(signal.SIGINT)
    driver.wait_until(lambda: "interrupted by SIGINT" in driver.log)
    driver.signal_group(signal.SIGINT)
    code, output = driver.end()
    assert code == 130, driver.log
    assert json.loads(output)["left"] == 6
