from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.plan import Plan, expand
from keel_lab.plan.summary import Summary, summarise
from keel_lab.spec import SweepSpec
from keel_lab.trial import Trial


@pytest.fixture
def plan(read: Callable[..., SweepSpec], good: str, catalogue: Catalogue, facts: CorpusFacts) -> Plan:
    spec = read(good, "grid.architecture=[pre_ln,keel]", "grid.alpha=[L,L^0.25]", "grid.seed=[0,1]")
    return expand(spec, catalogue, facts)


def summary(plan: Plan, facts: CorpusFacts, **options: Any) -> Summary:
    known = {"done": frozenset(), "step_seconds": lambda trial: None, "slots": 2, "name": "toy", "protocol": "ramp"}
    return summarise(plan, facts, **{**known, **options})


def test_numbers(plan: Plan, facts: CorpusFacts) -> None:
    done = {plan.trials[0].trial.id, plan.trials[-1].trial.id, "of another sweep"}
    got = summary(plan, facts, done=done).to_json()
    assert (got["trials"], got["collapsed"], got["done"]) == (12, 4, 2)
    assert got["left"] == {"trials": 10, "steps": 6000, "tokens": 6000 * 8 * 32}
    assert got["corpus"]["fingerprint"] == facts.fingerprint
    assert got["cells"][0] == {
        "architecture": "pre_ln",
        "blocks": 4,
        "sublayers": 8,
        "axes": {},
        "trials": 2,
        "references": 0,
        "done": 1,
        "parameters": 256 * 32 + 4 * 32**2,
        "steps": 600,
        "tokens": 600 * 8 * 32,
        "seconds": None,
    }
    assert got["cells"][2]["axes"] == {"alpha": "L"}
    json.dumps(got, allow_nan=False)


def test_time_is_unknown_until_a_step_was_measured(plan: Plan, facts: CorpusFacts) -> None:
    got = summary(plan, facts)
    assert got.to_json()["estimate"] == {"seconds": None, "trials_of_unknown_cost": 12, "slots": 2}
    assert "estimated time  unknown" in got.text()


def test_time_is_that_of_trials_side_by_side(plan: Plan, facts: CorpusFacts) -> None:
    got = summary(plan, facts, step_seconds=lambda trial: 0.1, slots=5)
    assert got.seconds == pytest.approx(180)  # 12 trials of 60 s on 5 slots: three rounds
    assert "3 min, 5 trials at once" in got.text()


def test_a_long_trial_bounds_the_time(plan: Plan, facts: CorpusFacts) -> None:
    def cost(trial: Trial) -> float:
        return 10.0 if trial.id == plan.trials[-1].trial.id else 0.0

    assert summary(plan, facts, step_seconds=cost, slots=100).seconds == pytest.approx(6000)


def test_a_partly_known_time_says_so(plan: Plan, facts: CorpusFacts) -> None:
    got = summary(plan, facts, step_seconds=lambda trial: 0.1 if trial.architecture == "pre_ln" else None, slots=1)
    assert got.unknown == 8
    assert "at least 4 min, 1 trial at once: known for 4 of 12 trials, unknown for 8" in got.text()


def test_nothing_is_left(plan: Plan, facts: CorpusFacts) -> None:
    got = summary(plan, facts, done={planned.trial.id for planned in plan.trials})
    assert (got.seconds, got.unknown, got.steps) == (0.0, 0, 0)
    assert "nothing to run" in got.text()
    assert "12 (reused from storage, not run again)" in got.text()


def test_text(plan: Plan, facts: CorpusFacts) -> None:
    done = {plan.trials[0].trial.id}
    assert summary(plan, facts, done=done, step_seconds=lambda trial: 0.1).text() == (
        "architecture  blocks  alpha   trials  done  parameters  steps   tokens  a trial takes\n"
        "pre_ln             4  -            2     1      12,288    600  153,600           60 s\n"
        "pre_ln             8  -            2     0      16,384    600  153,600           60 s\n"
        "keel               4  L            2     0      12,291    600  153,600           60 s\n"
        "keel               4  L^0.25       2     0      12,291    600  153,600           60 s\n"
        "keel               8  L            2     0      16,387    600  153,600           60 s\n"
        "keel               8  L^0.25       2     0      16,387    600  153,600           60 s\n"
        "\n"
        "sweep           toy (protocol ramp)\n"
        "trials          12 in 6 cells; 4 duplicates collapsed\n"
        "already done    1 (reused from storage, not run again)\n"
        "left to run     11 trials, 6,600 steps, 1,689,600 tokens\n"
        "corpus          stdlib: 1,000,000 training tokens, 256 ids\n"
        "estimated time  6 min, 2 trials at once"
    )
