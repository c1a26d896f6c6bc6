"""Reversible or not, from a trunk and its two forks."""

from __future__ import annotations

import math
import random

import pytest

from keel_lab.curve import Step
from keel_lab.detect.reversal import REVERSAL, judge_reversal
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict

H1, TRUNK, ONSET, END = 3.2, 300, 201, 500
VERDICT = Verdict(
    Status.DIVERGED, Mode.COLLAPSE, ONSET, ONSET - 1, 0.02, learned=True, evidence={"best_level": 2.2, "rule": "lost"}
)


def curve(last: int, level, seed: int = 0) -> list[Step]:
    noise = random.Random(seed)
    return [Step(i, level(i) + noise.gauss(0.0, 0.05), 1e-4 * i, H1) for i in range(1, last + 1)]


def lost(i: int) -> float:
    return 2.2 if i < ONSET else H1


trunk = curve(TRUNK, lost)
good = curve(END, lambda i: 2.2)


def judged(now: list[Step], before: list[Step] = good) -> Verdict:
    return judge_reversal(VERDICT, trunk, now, before, Thresholds(), H1)


def test_a_fork_that_comes_down_makes_it_reversible() -> None:
    now = curve(END, lambda i: lost(i) if i <= TRUNK else 2.2 + math.exp(-(i - TRUNK) / 20), 1)
    found = judged(now)
    assert (found.status, found.mode, found.censored) == (Status.TRANSIENT, None, True)
    assert (found.last_good_step, found.last_good_lr) == (TRUNK, pytest.approx(0.03))
    assert found.detector == REVERSAL
    assert found.evidence["reversal"]["finding"] == "reversible"


def test_a_fork_that_stays_up_leaves_the_verdict_as_it_is() -> None:
    found = judged(curve(END, lost, 1))
    assert (found.status, found.mode, found.last_good_lr) == (VERDICT.status, VERDICT.mode, VERDICT.last_good_lr)
    assert found.evidence["reversal"]["gap"] == pytest.approx(1.0, abs=0.05)


def test_a_fork_from_before_that_does_not_hold_its_level_decides_nothing() -> None:
    found = judged(curve(END, lost, 1), curve(END, lost, 2))
    assert found.status is Status.UNDECIDED
    assert found.evidence["reversal"]["finding"] == "the fork from before does not hold its level"


def test_a_fork_that_is_not_finite_does_not_come_back() -> None:
    now = [step if step.step <= TRUNK else step._replace(loss=math.nan) for step in good]
    assert judged(now).status is Status.DIVERGED
    broken = [step if step.step <= TRUNK else step._replace(loss=math.nan) for step in good]
    assert judged(now, broken).status is Status.UNDECIDED
