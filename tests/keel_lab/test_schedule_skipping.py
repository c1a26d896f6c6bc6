"""`budget.skip_above_divergence`: higher LRs of a cell do not run once a lower one diverged, and everyone says so."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from analysis.readings import read
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.schedule.status import describe_status
from keel_lab.settings import Budget, GridSchedule
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.track.tracker import NullTracker
from tests.toy_sweep import toy_sweep, toy_trial

RATES = (0.03, 1e-3, 0.02, 0.01)  # in no order


@pytest.fixture
def sweep():
    """Two seeds at four rates; all above 0.015 collapse."""
    trials = [
        toy_trial(seed=seed, collapse_lr=0.015).with_schedule(
            GridSchedule(lr=lr, steps=120, warmup_steps=100, shape="constant")
        )
        for seed in (0, 1)
        for lr in RATES
    ]
    return replace(toy_sweep(*trials), spec={"protocol": "grid", "budget": {"skip_above_divergence": True}})


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path)


def go(sweep, root, *, skip=True):
    Sweeps(root).save(sweep)
    with lease.hold(root, sweep.name) as held:
        proposer = ListProposer(sweep.trials, skip_above=skip)
        display, budget = PlainLines(io.StringIO()), Budget(skip_above_divergence=skip)
        executor, tracker = LocalExecutor(), NullTracker()
        return SweepRun(sweep, root, executor, tracker, proposer, display, budget, Interrupts()).run(held)


def test_higher_rates_are_skipped_and_count_as_neither_left_nor_diverged(sweep, root):
    summary = go(sweep, root)
    assert (summary.completed, summary.diverged, summary.skipped, summary.left) == (4, 2, 2, 0)
    assert summary.exit_code == 0
    states = {(one.planned.trial.init_seed, one.planned.trial.schedule.lr): one.state for one in _readings(root)}
    for seed in (0, 1):
        assert states[seed, 0.02] == "diverged"
        assert states[seed, 0.03] == "skipped"
    again = go(sweep, root)
    assert (again.reused, again.skipped, again.exit_code) == (6, 2, 0)


def test_status_and_report_say_so(sweep, root):
    go(sweep, root)
    status = json.loads(describe_status(sweep.name, root, as_json=True))
    assert status["complete"]
    assert status["states"]["skipped"] == 2
    (found,) = read([sweep.name], root)
    assert found.finished == found.total == 8


def test_without_it_all_run(sweep, root):
    summary = go(replace(sweep, spec={}), root, skip=False)
    assert (summary.completed, summary.diverged, summary.skipped) == (4, 4, 0)


def _readings(root):
    return read(["toys"], root)[0].readings
