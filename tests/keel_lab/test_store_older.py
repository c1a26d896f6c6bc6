"""A store that the first version of keel_lab wrote is read by this one, gone on with and reported."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from keel_lab.detect.verdict import DETECTOR
from keel_lab.result import FailureKind, Outcome
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.schedule.status import read_status
from keel_lab.settings import Budget
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import NullTracker
from tests.command_line import call
from tests.toy_sweep import outcome
from tests.toy_trainer import starts

FIRST = Path(__file__).parents[1] / "data" / "first_store"
FINISHED, DIVERGED, STOPPED, FAILED = "18925f650c1a9e07", "87aa79c998ca001a", "3755e170ccb17ede", "e6c31d8c77eb7697"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SIDE", str(tmp_path / "side"))
    shutil.copytree(FIRST, tmp_path / "store")
    return Root.open(tmp_path / "store")


def go_on(root):
    sweep, executor, display = Sweeps(root).load("toys"), LocalExecutor(), PlainLines(io.StringIO())
    proposer = ListProposer(sweep.trials)
    with lease.hold(root, sweep.name) as held:
        return SweepRun(sweep, root, executor, NullTracker(), proposer, display, Budget(), Interrupts()).run(held)


def test_its_trials_have_their_ids_results_and_failures(root, caplog):
    sweep, trials = Sweeps(root).load("toys"), Trials(root)
    assert [planned.trial.id for planned in sweep.trials] == [FINISHED, DIVERGED, STOPPED, FAILED]
    results = trials.results([planned.trial.id for planned in sweep.trials])
    assert {trial_id: result.outcome for trial_id, result in results.items()} == {
        FINISHED: Outcome.COMPLETED,
        DIVERGED: Outcome.DIVERGED,
    }
    assert len(trials.curve(FINISHED)) == 200
    assert trials.checkpoint_step(STOPPED) == 120
    assert [failure.kind for failure in trials.attempts(FAILED)] == [FailureKind.CRASH]
    assert read_status("toys", root)["states"] == {"completed": 1, "diverged": 1, "failed": 1, "stopped": 1}
    assert caplog.text == ""


def test_it_is_gone_on_with_and_nothing_finished_is_run_again(root, tmp_path):
    summary = go_on(root)
    assert (summary.completed, summary.diverged, summary.reused, summary.left) == (3, 1, 2, 0)
    began = {trial_id: starts(tmp_path / "side", trial_id) for trial_id in (FINISHED, DIVERGED, STOPPED, FAILED)}
    assert began == {FINISHED: [], DIVERGED: [], STOPPED: [120], FAILED: [0]}
    judged = Sweeps(root).judgements("toys", Sweeps(root).load("toys").thresholds)
    assert {verdict.detector for verdict in judged.values()} == {DETECTOR}
    calm = Root.open(tmp_path / "calm")
    shutil.copytree(FIRST / "sweeps", tmp_path / "calm" / "sweeps")
    go_on(calm)
    for planned in Sweeps(root).load("toys").trials:
        assert outcome(root, planned.trial)[0] == outcome(calm, planned.trial)[0]


def test_it_is_reported(root, capsys):
    said = call(capsys, "report", "toys", "--storage", root.uri)
    assert said.code == 0
    assert "of 4" in said.out
