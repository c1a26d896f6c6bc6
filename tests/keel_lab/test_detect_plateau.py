"""What counts as having settled at the unigram level, for both detectors."""

from __future__ import annotations

import random

import pytest

from keel_lab.curve import Step
from keel_lab.detect.agreement import judge_curve
from keel_lab.detect.plateau import settles
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode
from keel_lab.detect.whole import judge_whole

H1 = 3.2
BOTH = pytest.mark.parametrize("judge", [judge_curve, judge_whole])


def curve(*parts: tuple[int, float, float]) -> list[Step]:
    """Parts of (samples, level at their start, level at their end), with noise of 0.05 nats and a rising LR."""
    noise = random.Random(3)
    levels = [first + (last - first) * i / n for n, first, last in parts for i in range(n)]
    return [Step(i, level + noise.gauss(0.0, 0.05), 1e-4 * i, H1) for i, level in enumerate(levels, start=1)]


LEARNED = ((60, 5.0, 2.4), (60, 2.4, 2.2))


def test_a_run_at_the_level_settles_and_an_interrupted_one_does_not() -> None:
    wanted = Thresholds().collapse_samples
    assert settles([H1] * wanted, Thresholds(), H1)
    assert not settles([H1] * (wanted - 1) + [H1 + 1.0] + [H1] * (wanted - 1), Thresholds(), H1)
    assert not settles([H1] * wanted, Thresholds(), None)


@BOTH
def test_a_collapse_that_blows_up_later_is_one(judge) -> None:
    steps = curve(*LEARNED, (70, H1, H1 + 0.05), (60, H1 + 0.1, 9.0))
    assert judge(steps, Thresholds(), H1).mode is Mode.COLLAPSE


@BOTH
def test_a_rise_that_only_passes_the_level_is_none(judge) -> None:
    steps = curve(*LEARNED, (110, 2.2, 8.0), (30, 8.0, 9.0))
    assert judge(steps, Thresholds(), H1).mode is Mode.IRRECOVERABLE
