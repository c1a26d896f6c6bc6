"""Processes that are killed, memory that runs out, a second driver, a clock that is set: with real ones."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from benchmarks.chaos_faults import SOON, build_clock, descendants, program
from keel_lab.result import FailureKind
from keel_lab.schedule.ray_executor import RayExecutor
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from tests.driven_sweep import DrivenSweep
from tests.toy_sweep import toy_task, toy_trial

LOCAL = ("--executor", "local")


@pytest.mark.parametrize("process", ["raylet", "gcs_server"])
def test_kill_9_of_a_daemon_of_ray_costs_what_was_in_flight_and_a_new_ray_goes_on(tmp_path, undisturbed, process):
    sweep = DrivenSweep(tmp_path)
    driver = sweep.start("run", "toys.yaml", sleep=0.01, **SOON)
    sweep.wait_until(driver, lambda: sweep.finished >= 2 and sweep.begun > sweep.finished)
    (daemon,) = [pid for pid in descendants(driver.pid) if program(pid).endswith(f"/{process}")]
    os.kill(daemon, signal.SIGKILL)
    _, said = sweep.end(driver)
    assert said.count("the local Ray has died") == 1
    assert "preempted: the local Ray died, and was started again; attempt 2 follows" in said
    assert set(sweep.failures()) == {"preempted"}
    assert sweep.results() == undisturbed.results()
    assert sweep.report() == undisturbed.report()


def test_a_worker_that_ray_ends_for_want_of_memory_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")  # whatever is used is too much
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    monkeypatch.setenv("KEEL_TOY_SLEEP", "1")
    executor = RayExecutor(toy_trial().resources)
    try:
        executor.submit(toy_task(toy_trial(), Root.open(tmp_path / "store")))
        while (ended := executor.next_done(0.5)) is None:
            pass
    finally:
        executor.close()
    assert ended.failure is not None
    assert (ended.failure.kind, ended.failure.message) == (
        FailureKind.OOM,
        "the node ran out of memory and Ray ended the worker",
    )


def test_the_second_driver_of_a_sweep_is_refused_and_the_first_goes_on(tmp_path, undisturbed):
    sweep = DrivenSweep(tmp_path)
    first = sweep.start("run", "toys.yaml", *LOCAL, sleep=0.01)
    sweep.wait_until(first, lambda: sweep.begun >= 1)
    for words in (("run", "toys.yaml"), ("resume", "toys")):
        out, said = sweep.call(*words, *LOCAL, expect=2)
        assert out == ""
        assert f"sweep toys is being run by pid {first.pid} on host " in said
    first.kill()
    first.wait()
    sweep.call("resume", "toys", *LOCAL)  # a dead one's lease is free at once
    assert sweep.results() == undisturbed.results()


@pytest.fixture(scope="session")
def jumping_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that puts a process's wall clock off."""
    return build_clock(tmp_path_factory.mktemp("clock"))


def test_a_clock_that_is_set_while_a_sweep_runs_changes_nothing(tmp_path, jumping_clock, undisturbed):
    sweep = DrivenSweep(tmp_path)
    offset = tmp_path / "seconds"
    offset.write_text("0")
    clock = {"LD_PRELOAD": str(jumping_clock), "JUMPING_CLOCK": str(offset)}
    driver = sweep.start("run", "toys.yaml", *LOCAL, sleep=0.01, **clock)
    for finished, days in ((1, -100), (2, 400), (4, -1)):
        sweep.wait_until(driver, lambda n=finished: sweep.finished >= n)
        offset.write_text(str(days * 24 * 3600))
    _, said = sweep.end(driver)
    assert "6/6 done" in said or said.count("healthy") == 6
    moments = [execution(sweep, name) for name in sweep.root.list("trials")]
    assert max(start for start, _ in moments) - min(start for start, _ in moments) > 100 * 24 * 3600, "it never jumped"
    assert all(0 < end - start < 3600 for start, end in moments)
    assert sweep.results() == undisturbed.results()
    assert sweep.report() == undisturbed.report()


def execution(sweep: DrivenSweep, trial_id: str) -> tuple[float, float]:
    """When a trial says that it began and ended."""
    result = Trials(sweep.root).result(trial_id)
    assert result is not None
    return result.execution["started_at"], result.execution["finished_at"]
