"""The unigram level H1: the paired loss, learning, collapse, stagnation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from keel_lab.curve import Step
from keel_lab.detect.max_lr import MaxLRKind, max_lr
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.detect.whole import judge_whole
from tests.simulated_curves import curve, gaussian, log_ramp, losses

H1 = 3.2


def verdict(level: Callable[[int], float], steps: int = 700, sigma: float = 0.1, seed: object = 0) -> Verdict:
    detector = StreamingDetector(Thresholds(), H1)
    for step in curve(losses(level, gaussian(sigma), steps, seed), lr=log_ramp):
        detector.update(step)
    return detector.verdict()


def learning(t: int) -> float:
    return 2.4 + 3.1 * math.exp(-t / 60.0)


def test_the_paired_loss_takes_the_batch_out_where_it_is_known():
    assert paired_loss(3.0, 3.5, 3.2) == pytest.approx(2.7)
    assert paired_loss(3.0, 3.5, 3.2, weight=0.5) == pytest.approx(2.85)
    for unknown in (math.nan, math.inf):
        assert paired_loss(3.0, unknown, 3.2) == 3.0
    assert paired_loss(3.0, 3.5, None) == 3.0


def test_pairing_quietens_the_detector():
    paired, raw = StreamingDetector(Thresholds(), H1), StreamingDetector(Thresholds(), H1)
    r = random.Random(0)
    for t in range(1, 501):
        batch, own = r.gauss(0.0, 0.25), r.gauss(0.0, 0.05)
        step = Step(t, learning(t) + batch + own, log_ramp(t), H1 + batch)
        paired.update(step)
        raw.update(step._replace(unigram_loss=math.nan))
    assert paired.verdict().evidence["sigma"] == pytest.approx(0.05, rel=0.35)
    assert raw.verdict().evidence["sigma"] == pytest.approx(0.255, rel=0.35)


@pytest.mark.parametrize("seed", range(6))
def test_a_fall_back_to_the_unigram_level_is_a_collapse(seed):
    found = verdict(lambda t: learning(t) + (0.85 / (1.0 + math.exp(-(t - 420) / 5.0))), seed=seed)
    assert (found.status, found.mode, found.learned) == (Status.DIVERGED, Mode.COLLAPSE, True)
    assert found.last_good_step is not None
    assert 395 <= found.last_good_step <= 420
    assert found.last_good_lr == log_ramp(found.last_good_step)
    assert max_lr(found).kind is MaxLRKind.MEASURED


@pytest.mark.parametrize(("height", "seed"), [(0.4, 0), (0.4, 1), (2.0, 0), (2.0, 1)])
def test_a_level_lost_elsewhere_is_irrecoverable(height, seed):
    found = verdict(lambda t: learning(t) + (height if t > 400 else 0.0), seed=seed)
    assert (found.status, found.mode, found.learned) == (Status.DIVERGED, Mode.IRRECOVERABLE, True)


@pytest.mark.parametrize("seed", range(6))
def test_a_model_that_idles_at_the_unigram_level_stagnates_whatever_it_does_there(seed):
    wobble = verdict(lambda t: H1 + 2.3 * math.exp(-t / 40.0) + (0.12 if t > 350 else 0.02), sigma=0.02, seed=seed)
    assert (wobble.status, wobble.mode, wobble.learned) == (Status.DIVERGED, Mode.STAGNATION, False)
    assert (wobble.onset_step, wobble.last_good_step, wobble.last_good_lr) == (None, None, None)
    assert wobble.evidence["rule"] == "never_learned"
    assert wobble.evidence["alarm_step"] is None
    assert max_lr(wobble).kind is MaxLRKind.NOT_LEARNED


def test_a_model_that_never_learned_and_rises_clearly_is_irrecoverable_and_not_learned():
    found = verdict(lambda t: H1 + 2.3 * math.exp(-t / 40.0) + (1.5 if t > 350 else 0.0))
    assert (found.status, found.mode, found.learned) == (Status.DIVERGED, Mode.IRRECOVERABLE, False)
    assert found.onset_step is not None
    assert 345 <= found.onset_step <= 352
    assert (found.last_good_step, found.last_good_lr) == (None, None)
    assert max_lr(found).kind is MaxLRKind.NOT_LEARNED


def test_a_slow_start_above_the_unigram_level_is_not_judged_before_the_end():
    found = verdict(lambda t: 5.5 if t < 300 else 2.4 + 3.1 * math.exp(-(t - 300) / 30.0))
    assert (found.status, found.learned, found.censored) == (Status.HEALTHY, True, True)


@pytest.mark.parametrize("depth", [0.05, 0.07])
def test_less_than_the_margin_below_is_not_learned(depth):
    assert verdict(lambda t: H1 - depth, sigma=0.02).mode is Mode.STAGNATION


def test_four_standard_errors_are_asked_of_a_noisy_curve():
    assert verdict(lambda t: H1, sigma=0.4, steps=2000).mode is Mode.STAGNATION


def test_without_the_unigram_level_nothing_is_said_of_learning():
    detector = StreamingDetector(Thresholds())
    for step in curve([3.2] * 100):
        detector.update(step)
    assert detector.verdict().learned is None


@pytest.mark.parametrize("level", [math.nan, math.inf])
def test_a_unigram_level_that_is_not_finite_is_refused(level):
    with pytest.raises(ValueError, match="unigram entropy must be finite"):
        StreamingDetector(Thresholds(), level)


def test_a_model_that_its_first_update_destroyed_has_learned_nothing():
    """Two steps, the loss of the untrained model and a NaN: no learning rate was tolerated."""
    steps = [Step(1, 5.55, 1e-3, 3.2), Step(2, math.nan, 5e3, 3.2)]
    detector = StreamingDetector(Thresholds(), 3.2)
    for step in steps:
        detector.update(step)
    for found in (detector.verdict(), judge_whole(steps, Thresholds(), 3.2)):
        assert (found.status, found.mode) == (Status.DIVERGED, Mode.NON_FINITE)
        assert found.learned is False
        assert max_lr(found).kind is MaxLRKind.NOT_LEARNED


def test_a_short_curve_that_did_learn_keeps_its_last_good_lr():
    steps = [Step(n, loss, n * 1e-3, 3.2) for n, loss in enumerate([3.4, 2.9, 2.8, math.nan], start=1)]
    detector = StreamingDetector(Thresholds(), 3.2)
    for step in steps:
        detector.update(step)
    assert max_lr(detector.verdict()).lr == 3e-3
