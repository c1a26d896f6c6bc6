"""Simulated families with known truth: no false alarm, no divergence missed, onsets where they are."""

from __future__ import annotations

import random
from statistics import median

import pytest

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from tests.simulated_curves import (
    RISES,
    TRENDS,
    Noise,
    bf16,
    correlated,
    curve,
    gaussian,
    losses,
    rising,
    student3,
    switching,
    with_outliers,
)

HEALTHY: dict[str, tuple[str, Noise]] = {
    "quiet": ("power law", gaussian(0.01)),
    "usual": ("power law", gaussian(0.1)),
    "loud": ("power law", gaussian(0.4)),
    "flat and quiet": ("flat", gaussian(0.01)),
    "flat": ("flat", gaussian(0.1)),
    "flat and loud": ("flat", gaussian(0.4)),
    "steep": ("steep start", gaussian(0.02)),
    "steep and noisy": ("steep start", gaussian(0.1)),
    "very steep": ("very steep start", gaussian(0.05)),
    "early plateau": ("plateau that falls", gaussian(0.15)),
    "late start": ("late start", gaussian(0.05)),
    "heavy tails": ("power law", student3(0.1)),
    "flat, heavy tails": ("flat", student3(0.1)),
    "correlated": ("power law", correlated(0.1, 0.4)),
    "flat, correlated": ("flat", correlated(0.1, 0.3)),
    "one-step spikes": ("power law", with_outliers(0.05, 1.4, 0.01)),
    "two-step spikes": ("flat", with_outliers(0.1, 1.4, 0.005, length=2)),
    "dips": ("power law", with_outliers(0.02, -0.7, 0.01)),
    "batch made smaller": ("power law", switching(0.1, 0.4, 1000)),
    "batch made larger": ("flat", switching(0.4, 0.1, 1000)),
    "bump": ("decaying bump", gaussian(0.1)),
}


def verdict(steps: list[Step], h1: float | None = None) -> Verdict:
    detector = StreamingDetector(Thresholds(), h1)
    for step in steps:
        detector.update(step)
    return detector.verdict()


@pytest.mark.parametrize("family", HEALTHY)
def test_no_alarm_in_ten_healthy_runs_of_2000_steps(family):
    trend, noise = HEALTHY[family]
    for seed in range(10):
        found = verdict(curve(losses(TRENDS[trend], noise, 2000, (family, seed))))
        assert found.status is Status.HEALTHY, (seed, found)


@pytest.mark.parametrize("stride", [1, 10])
def test_no_alarm_on_quantised_or_strided_logs(stride):
    for seed in range(5):
        values = losses(lambda t: TRENDS["power law"](t * stride), gaussian(0.05), 2000, seed)
        found = verdict(curve([bf16(v) for v in values] if stride == 1 else values, stride))
        assert found.status is Status.HEALTHY, (seed, found)


def onset_errors(rise: str, noise: Noise, trend: str, runs: int = 12) -> list[int]:
    errors = []
    for seed in range(runs):
        last_good = random.Random(f"{rise}{seed}").randrange(150, 450)
        values = losses(rising(TRENDS[trend], RISES[rise], last_good), noise, 900, (rise, trend, seed))
        found = verdict(curve(values))
        assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE), (seed, found)
        assert found.onset_step is not None
        assert found.last_good_step == found.onset_step - 1
        errors.append(found.last_good_step - last_good)
    return errors


@pytest.mark.parametrize("trend", ["power law", "flat", "steep start"])
@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_a_jump_is_dated_to_a_few_steps(trend, sigma):
    errors = onset_errors("jump", gaussian(sigma), trend)
    assert abs(median(errors)) <= 2, errors
    assert all(-12 <= error <= 1 for error in errors), errors


@pytest.mark.parametrize("noise", [student3(0.1), with_outliers(0.05, 1.4, 0.01), correlated(0.1, 0.3)])
def test_a_jump_is_dated_in_any_noise(noise):
    errors = onset_errors("jump", noise, "power law")
    assert abs(median(errors)) <= 3, errors
    assert all(-25 <= error <= 2 for error in errors), errors


@pytest.mark.parametrize("trend", ["power law", "flat"])
def test_a_collapse_is_dated_before_it_is_half_way(trend):
    errors = onset_errors("collapse", gaussian(0.1), trend)
    assert 0 <= median(errors) <= 14, errors
    assert all(-15 <= error <= 18 for error in errors), errors


@pytest.mark.parametrize(("rise", "slope"), [("creep of 0.01 a step", 0.01), ("creep of 0.003 a step", 0.003)])
@pytest.mark.parametrize("sigma", [0.03, 0.1])
def test_a_slow_creep_is_a_divergence_dated_within_a_sigma_and_a_half(rise, slope, sigma):
    errors = onset_errors(rise, gaussian(sigma), "flat")
    late = 1.5 * max(sigma, 0.03) / slope
    assert 0 <= median(errors) <= late, errors
    assert all(-25 <= error <= 2 * late for error in errors), errors


def test_an_early_divergence_is_found():
    for seed in range(10):
        values = losses(
            lambda t: 5.0 - 0.1 * t if t <= 20 else 3.0 + min(1.5, 0.1 * (t - 20)), gaussian(0.1), 300, seed
        )
        found = verdict(curve(values))
        assert found.status is Status.DIVERGED, seed
        assert found.last_good_step in range(15, 36), (seed, found)


def test_a_spike_that_is_regained_is_a_transient():
    for seed in range(10):
        values = losses(lambda t: 3.0 + (2.0 if 500 < t <= 540 else 0.0), gaussian(0.1), 1000, seed)
        found = verdict(curve(values))
        assert (found.status, found.evidence["transients"], found.censored) == (Status.TRANSIENT, 1, True)
        assert 495 <= found.evidence["transient_steps"][0] <= 501


def test_a_level_regained_only_after_the_lr_decayed_is_not_regained():
    values = losses(lambda t: 3.0 + (1.0 if 500 < t <= 560 else 0.0), gaussian(0.1), 1000, 0)
    assert verdict(curve(values)).status is Status.TRANSIENT
    found = verdict(curve(values, lr=lambda step: 1e-2 if step < 550 else 1e-3))
    assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE)
    assert found.last_good_step is not None
    assert 495 <= found.last_good_step <= 500


def test_a_chaotic_divergence_does_not_excuse_itself_by_its_own_noise():
    for seed in range(10):
        r = random.Random(seed)
        values = losses(TRENDS["power law"], gaussian(0.05), 400, seed) + [4.0 + r.gauss(0.0, 1.5) for _ in range(300)]
        found = verdict(curve(values))
        assert found.status is Status.DIVERGED, (seed, found)
        assert found.last_good_step is not None
        assert 390 <= found.last_good_step <= 430


def test_without_an_lr_there_is_an_onset_but_no_lr():
    values = losses(rising(TRENDS["power law"], RISES["jump"], 300), gaussian(0.05), 600, 0)
    found = verdict(curve(values, lr=lambda step: float("nan")))
    assert found.status is Status.DIVERGED
    assert found.last_good_step is not None
    assert found.last_good_lr is None


def test_a_blow_up_at_the_end_needs_no_confirmation_and_huge_losses_do_no_harm():
    calm = losses(TRENDS["power law"], gaussian(0.05), 300, 0)
    found = verdict(curve([*calm, *[1e30 * i for i in range(1, 8)]]))
    assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE)
    assert found.last_good_step in range(296, 301)
    assert found.evidence["rule"] == "blown_up_at_end"
    regained = verdict(curve([*calm, *[3e38] * 10, *losses(lambda t: 2.6, gaussian(0.05), 300, 1)]))
    assert (regained.status, regained.evidence["transients"]) == (Status.TRANSIENT, 1)
