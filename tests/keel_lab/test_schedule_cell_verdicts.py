"""Verdicts beside siblings: made when a cell is in, told to whoever watches, and not made again while they stand."""

from __future__ import annotations

import io
import json

import pytest

from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.verdict import Mode, Status
from keel_lab.plan.siblings import reference_of
from keel_lab.schedule.beside import Beside
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.live_snapshot import read_snapshot
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.schedule.status import describe_status
from keel_lab.settings import Budget, SiblingSettings
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.track.tracker import NullTracker
from tests.toy_sweep import THRESHOLDS, toy_sweep, toy_trial

SLOW = toy_trial(slow_lr=1.5e-4, slow_peak=0.05)  # lies above its reference, and still falls
BEHIND = "beside its siblings diverged (degradation) at step"


class Recorder(NullTracker):
    def __init__(self):
        self.told = []

    def record(self, planned, result, verdict, curve, beside=None):
        self.told.append((planned.trial.id, verdict.status, beside and beside.mode))


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path / "store")


@pytest.fixture
def go(root):
    def run(sweep, executor=None, **budget):
        Sweeps(root).save(sweep)
        lines, tracker = io.StringIO(), Recorder()
        proposer = ListProposer(sweep.trials, sweep.siblings)
        with lease.hold(root, sweep.name) as held:
            executor, display = executor or LocalExecutor(), PlainLines(lines)
            SweepRun(sweep, root, executor, tracker, proposer, display, Budget(**budget), Interrupts()).run(held)
        return lines.getvalue().splitlines(), tracker.told

    return run


def sweep_of(*trials):
    return toy_sweep(*trials, siblings=SiblingSettings())


def test_it_is_told_when_the_cell_is_in_and_stays_in_status(go, root):
    lines, told = go(sweep_of(SLOW, toy_trial(seed=1)))
    (behind,) = [line for line in lines if BEHIND in line]
    assert behind.startswith("toy-b4-slow_lr=1.5e-4-slow_peak=0.05-s0: ")
    assert lines.index(behind) < len(lines) - 1, "not only when all is done"
    assert told.count((SLOW.id, Status.HEALTHY, None)) == 1
    assert told.count((SLOW.id, Status.HEALTHY, Mode.DEGRADATION)) == 1
    assert "healthy, Max LR > 0.1 (censored); beside its siblings diverged (degradation)" in describe_status(
        "toys", root, as_json=False
    )
    rows = {
        row["id"]: row
        for cell in json.loads(describe_status("toys", root, as_json=True))["cells"]
        for row in cell["trials"]
    }
    assert (rows[SLOW.id]["beside"]["status"], rows[SLOW.id]["beside"]["mode"]) == ("diverged", "degradation")
    assert [one for one, row in rows.items() if "beside" in row] == [SLOW.id]


def test_a_running_sweep_shows_it_before_it_is_stored(go, root):
    seen = []

    class Looking(LocalExecutor):
        def next_done(self, timeout):
            done = super().next_done(timeout)
            snapshot = read_snapshot(root, "toys")[1]
            seen.append({one: verdict.mode for one, verdict in snapshot.items()})
            return done

    go(sweep_of(SLOW, *(toy_trial(seed=seed) for seed in range(1, 4))), Looking())
    assert {SLOW.id: Mode.DEGRADATION} not in seen[:2]
    assert Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS)[SLOW.id].mode is Mode.DEGRADATION


def test_what_stands_is_not_judged_again_but_told_to_the_tracker(go, root, monkeypatch):
    sweep = sweep_of(SLOW, toy_trial(seed=1))
    go(sweep)
    files = {name: root.read(f"sweeps/toys/judgements/{name}") for name in root.list("sweeps/toys/judgements")}

    def fail(self, planned):
        raise AssertionError(f"{planned.name} was judged again")

    monkeypatch.setattr(Beside, "judge", fail)
    lines, told = go(sweep)
    assert (SLOW.id, Status.HEALTHY, Mode.DEGRADATION) in told
    assert not [line for line in lines if BEHIND in line]
    root.delete(next(f"sweeps/toys/judgements/{name}" for name in files if name.startswith("worse")))
    go(sweep)  # each verdict is held against what it was made from
    assert {name: root.read(f"sweeps/toys/judgements/{name}") for name in root.list("sweeps/toys/judgements")} == files


def test_a_sibling_that_comes_later_is_heard(go, root):
    """A ramp that ran beside nothing is judged when its reference, missing until then, is in."""
    sweep = sweep_of(SLOW)
    go(toy_sweep(SLOW, name="toys"))
    assert Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS) == {}
    lines, told = go(sweep)
    assert [line for line in lines if BEHIND in line]
    stored = Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS)[SLOW.id]
    assert stored.evidence["siblings"]["used"] == [reference_of(SLOW).id]
    assert [mode for trial_id, _, mode in told if trial_id == SLOW.id][-1] is Mode.DEGRADATION


def test_a_cell_that_is_cut_short_is_judged_with_the_siblings_there_are(go, root):
    go(sweep_of(SLOW, toy_trial(seed=1)), trials=3)
    assert set(Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS)) == {SLOW.id}
