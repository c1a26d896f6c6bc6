"""How often each kind of failure is tried again, and what `status` says of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from keel_lab.result import Failure, FailureKind, Outcome
from keel_lab.schedule import worker
from keel_lab.schedule.limits import Limits
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.retries import Retries
from keel_lab.schedule.status import describe_status, read_status
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.toy_sweep import MEMORY, toy_sweep, toy_task, toy_trial


def tries(*failures, stored=()):
    """Whether another attempt follows each of these failures."""
    retries, trial = Retries(), toy_trial()
    steps = [*stored, *[None] * (len(failures) - len(stored))]
    return [retries.after(trial, one, step) is not None for one, step in zip(failures, steps, strict=True)]


@pytest.mark.parametrize(
    ("kind", "again"), [("crash", 3), ("preempted", 3), ("oom", 1), ("timeout", 1)], ids=lambda value: str(value)
)
def test_each_kind_has_its_number_of_retries(kind, again):
    failure = Failure(FailureKind(kind), "as told")
    assert tries(*[failure] * 5)[: again + 1] == [True] * again + [False]


def test_kinds_are_counted_together_up_to_three():
    crash, oom, timeout = (Failure(FailureKind(kind), "") for kind in ("crash", "oom", "timeout"))
    assert tries(crash, oom, timeout, crash) == [True, True, True, False]
    assert tries(replace(crash, final=True)) == [False]


def test_a_preemption_that_came_further_costs_no_retry():
    preempted = Failure(FailureKind.PREEMPTED, "")
    assert tries(*[preempted] * 9, stored=range(10, 100, 10)) == [True] * 9
    assert tries(*[preempted] * 5, stored=[10] * 5) == [True] * 4 + [False]  # the first came further, the others not
    crash = Failure(FailureKind.CRASH, "")
    assert tries(*[crash] * 4, stored=range(10, 50, 10)) == [True] * 3 + [False]


def test_more_memory_is_declared_after_an_out_of_memory_only():
    retries = Retries()
    assert retries.after(toy_trial(), Failure(FailureKind.TIMEOUT, "")).resources.memory == MEMORY
    assert retries.after(toy_trial(), Failure(FailureKind.OOM, "")).resources.memory == 2 * MEMORY


def test_an_attempt_over_its_time_goes_on_from_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.01")
    root, trial = Root.open(tmp_path), toy_trial(steps=60)
    first = worker.attempt(replace(toy_task(trial, root), seconds=0.2), LocalMailbox())
    assert isinstance(first, Failure)
    step = Trials(root).checkpoint_step(trial.id)
    assert (first.kind, first.message) == (
        FailureKind.TIMEOUT,
        f"the 0.2 s of budget.trial_time were over; step {step} is stored",
    )
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0")
    second = worker.attempt(replace(toy_task(trial, root, 2), seconds=60.0), LocalMailbox())
    assert second.outcome is Outcome.COMPLETED
    assert second.steps == 60


def test_the_drivers_word_goes_before_the_limits(tmp_path):
    class Asks(LocalMailbox):
        def announce(self, news):
            stop = super().announce(news)
            begins = stop()
            limits.preempted = self.stop_requested = True  # both while it trains
            return lambda: begins

    limits = Limits()
    result = worker.attempt(toy_task(toy_trial(), Root.open(tmp_path)), Asks(), limits)
    assert result.outcome is Outcome.STOPPED


def test_status_says_why_and_how_often(tmp_path):
    root = Root.open(tmp_path)
    flaky, broken, fine = toy_trial(seed=5), toy_trial("toy_crash"), toy_trial()
    sweep = Sweeps(root).save(toy_sweep(flaky, broken, fine))
    trials = Trials(root)
    for kind in ("crash", "preempted", "crash"):
        trials.add_attempt(flaky.id, Failure(FailureKind(kind), f"{kind} as told", "node-1"))
    trials.add_attempt(broken.id, Failure(FailureKind.OOM, "no room", "node-2"))
    assert worker.attempt(toy_task(flaky, root, attempt=4), LocalMailbox()).outcome is Outcome.COMPLETED
    assert worker.attempt(toy_task(fine, root), LocalMailbox()).outcome is Outcome.COMPLETED
    rows = {row["id"]: row for cell in read_status(sweep.name, root)["cells"] for row in cell["trials"]}
    assert rows[flaky.id]["attempts"] == 3
    assert rows[flaky.id]["failures"][1] == {"kind": "preempted", "message": "preempted as told", "node": "node-1"}
    assert rows[flaky.id]["verdict"].endswith("; failed before: crash x 2, preempted")
    assert (rows[broken.id]["state"], rows[broken.id]["verdict"]) == ("failed", "oom: no room")
    assert rows[broken.id]["failures"] == [{"kind": "oom", "message": "no room", "node": "node-2"}]
    assert "attempts" not in rows[fine.id]
    text = describe_status(sweep.name, root, as_json=False)
    assert "failed before: crash x 2, preempted" in text
    assert "oom: no room" in text
    assert json.loads(describe_status(sweep.name, root, as_json=True))["trials"] == 3
