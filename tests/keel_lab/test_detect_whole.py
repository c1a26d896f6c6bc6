"""The whole-curve detector: the streaming detector's words and rules, onsets located more closely, and who stands."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from keel_lab.curve import Step
from keel_lab.detect.agreement import judge_curve
from keel_lab.detect.change_point import change_point, first_departure
from keel_lab.detect.noise import local_noise, running_median
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status
from keel_lab.detect.whole import WHOLE, judge_whole
from tests.simulated_curves import (
    RISES,
    TRENDS,
    bf16,
    correlated,
    curve,
    gaussian,
    log_ramp,
    losses,
    rising,
    student3,
    switching,
    with_outliers,
)

NAN, INF = math.nan, math.inf
HEALTHY = {
    "usual": ("power law", gaussian(0.1)),
    "flat": ("flat", gaussian(0.1)),
    "very steep": ("very steep start", gaussian(0.05)),
    "early plateau": ("plateau that falls", gaussian(0.15)),
    "late start": ("late start", gaussian(0.05)),
    "heavy tails": ("flat", student3(0.1)),
    "correlated": ("flat", correlated(0.1, 0.3)),
    "one-step spikes": ("power law", with_outliers(0.05, 1.4, 0.01)),
    "two-step spikes": ("flat", with_outliers(0.1, 1.4, 0.005, length=2)),
    "dips": ("power law", with_outliers(0.02, -0.7, 0.01)),
    "batch made smaller": ("power law", switching(0.1, 0.4, 1000)),
    "batch made larger": ("flat", switching(0.4, 0.1, 1000)),
}


def healthy(steps, seed=0):
    return losses(TRENDS["power law"], gaussian(0.05), steps, seed)


@pytest.mark.parametrize("family", HEALTHY)
def test_no_alarm_in_healthy_runs(family):
    trend, noise = HEALTHY[family]
    for seed in range(4):
        found = judge_whole(curve(losses(TRENDS[trend], noise, 2000, (family, seed))))
        assert (found.status, found.censored, found.last_good_step) == (Status.HEALTHY, True, 2000), seed
        assert found.detector == WHOLE


def test_quantised_losses_are_no_rise():
    assert judge_whole(curve([bf16(value) for value in healthy(1000)])).status is Status.HEALTHY


def test_a_bump_that_decays_is_no_divergence_and_is_counted_once_it_alarms():
    values = healthy(800)
    bumped = [value + (1.5 * math.exp(-(i - 500) / 15.0) if i >= 500 else 0.0) for i, value in enumerate(values)]
    found = judge_whole(curve(bumped))
    assert (found.status, found.mode) == (Status.TRANSIENT, None)
    assert found.evidence["transient_steps"] == [501]


@pytest.mark.parametrize("rise", RISES)
@pytest.mark.parametrize("trend", ["power law", "flat", "steep start"])
def test_onsets_are_dated_at_least_as_closely_as_by_the_streaming_detector(rise, trend):
    whole, streaming = [], []
    for seed in range(8):
        last_good = random.Random(f"{rise}{seed}").randrange(150, 450)
        steps = curve(losses(rising(TRENDS[trend], RISES[rise], last_good), gaussian(0.1), last_good + 300, seed))
        found = judge_whole(steps)
        assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE)
        assert found.evidence["onset_interval"] == [found.last_good_step, found.onset_step]
        detector = StreamingDetector(Thresholds())
        for step in steps:
            detector.update(step)
        whole.append(abs(found.last_good_step - last_good))
        streaming.append(abs(detector.verdict().last_good_step - last_good))
    assert median(whole) <= median(streaming)
    assert median(whole) <= {"jump": 0, "collapse": 10, "creep of 0.01 a step": 8, "creep of 0.003 a step": 24}[rise]


def test_a_fall_back_to_the_unigram_level_is_a_collapse_and_never_leaving_it_stagnation():
    def learning(t):
        return 2.4 + 3.1 * math.exp(-t / 60.0)

    lost = judge_whole(
        curve(
            losses(lambda t: learning(t) + 0.85 / (1 + math.exp(-(t - 420) / 5)), gaussian(0.1), 700, 1), lr=log_ramp
        ),
        None,
        3.2,
    )
    assert (lost.status, lost.mode, lost.learned) == (Status.DIVERGED, Mode.COLLAPSE, True)
    assert 395 <= lost.last_good_step <= 420
    assert lost.last_good_lr == log_ramp(lost.last_good_step)
    idle = judge_whole(curve(losses(lambda t: 3.2 + 2.0 * math.exp(-t / 30.0), gaussian(0.05), 500, 1)), None, 3.2)
    assert (idle.status, idle.mode, idle.learned) == (Status.DIVERGED, Mode.STAGNATION, False)
    assert (idle.onset_step, idle.last_good_step) == (None, None)


def test_the_paired_loss_is_judged_where_it_is_known():
    r = random.Random(0)
    steps = []
    for t in range(1, 501):
        batch, own = r.gauss(0.0, 0.25), r.gauss(0.0, 0.05)
        level = 2.4 + 3.1 * math.exp(-t / 60.0) + (0.3 if t > 350 else 0.0)
        steps.append(Step(t, level + batch + own, log_ramp(t), 3.2 + batch))
    found = judge_whole(steps, None, 3.2)
    assert (found.status, found.last_good_step) == (Status.DIVERGED, 350)
    assert found.evidence["sigma"] == pytest.approx(0.05, rel=0.35)


@pytest.mark.parametrize("values", [[], [3.0], [3.0] * 7, [3.0, NAN, 3.0]])
def test_under_eight_samples_nothing_is_decided(values):
    found = judge_whole(curve(values))
    assert (found.status, found.last_good_step, found.learned) == (Status.UNDECIDED, None, None)


@pytest.mark.parametrize("values", [[0.9, 0.8, NAN], [3.0] * 3 + [INF] * 3, [NAN] * 4, [*healthy(100), NAN, NAN]])
def test_a_curve_lost_to_non_finite_values_is_dated_there(values):
    found = judge_whole(curve(values))
    first = next(i for i, value in enumerate(values, start=1) if not math.isfinite(value))
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, first)
    assert found.last_good_step == (first - 1 or None)


def test_one_inf_that_is_regained_is_a_transient_and_many_in_turn_are_a_divergence():
    values = losses(lambda t: 1.25, gaussian(0.02), 1000, 4)
    found = judge_whole(curve([*values[:600], INF, *values[600:]]))
    assert (found.status, found.evidence["transient_steps"]) == (Status.TRANSIENT, [601])
    found = judge_whole(curve([*healthy(100), *[NAN, NAN, 2.9] * 60]))
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 101)


def test_a_rise_that_ends_in_nan_keeps_the_onset_of_the_rise():
    values = [*losses(lambda t: 2.0, gaussian(0.05), 300, 1), *[3.0 + 0.2 * i for i in range(40)], NAN, NAN, NAN]
    found = judge_whole(curve(values))
    assert (found.mode, found.onset_step, found.last_good_step) == (Mode.NON_FINITE, 301, 300)


def test_weights_that_are_not_finite_end_it():
    steps = curve(healthy(100))
    steps[60] = steps[60]._replace(weights_finite=False)
    assert (judge_whole(steps).onset_step, judge_whole(steps).evidence["rule"]) == (61, "non_finite_weights")


def test_a_level_regained_after_the_lr_has_decayed_is_not_regained():
    values = [*losses(lambda t: 2.0, gaussian(0.05), 300, 1), *losses(lambda t: 3.0, gaussian(0.05), 50, 2)]
    values += losses(lambda t: 2.0, gaussian(0.05), 200, 3)
    assert judge_whole(curve(values, lr=lambda step: 1e-3)).status is Status.TRANSIENT
    found = judge_whole(curve(values, lr=lambda step: 1e-3 if step <= 350 else 1e-4))
    assert (found.status, found.last_good_step) == (Status.DIVERGED, 300)


def test_a_curve_that_ends_in_a_rise_is_unconfirmed_or_lost_by_how_long_it_has_lasted():
    def lifted(length):
        return [*losses(lambda t: 2.0, gaussian(0.05), 300, 1), *losses(lambda t: 2.5, gaussian(0.05), length, 2)]

    assert judge_whole(curve(lifted(60))).status is Status.UNCONFIRMED
    assert judge_whole(curve(lifted(60)), Thresholds(confirm_samples=40)).status is Status.DIVERGED
    assert judge_whole(curve(lifted(110))).status is Status.DIVERGED


def test_the_streaming_verdict_stands_where_the_two_disagree_and_the_evidence_says_so():
    # 105 samples up, alarmed after 14: the streaming detector waits for 100 more, the whole curve shows the onset
    values = [*losses(lambda t: 2.0, gaussian(0.05), 300, 1), *losses(lambda t: 2.5, gaussian(0.05), 105, 2)]
    found = judge_curve(curve(values))
    assert found.status is Status.UNCONFIRMED
    assert found.evidence["agree"] is False
    assert found.evidence["detectors"]["streaming-2"]["status"] == "unconfirmed"
    assert found.evidence["detectors"][WHOLE]["status"] == "diverged"
    assert "unconfirmed, which stands" in found.evidence["disagreement"]
    assert found.evidence["onset_interval"] == [300, 301]


def test_agreement_is_said_too():
    found = judge_curve(curve(healthy(300)))
    assert found.evidence["agree"] is True
    assert "disagreement" not in found.evidence
    assert found.evidence["onset_interval"] is None


def test_an_index_that_does_not_rise_is_refused():
    with pytest.raises(ValueError, match="the index must rise"):
        judge_whole([Step(1, 1.0, 0.1), Step(1, 1.0, 0.1)])
    with pytest.raises(ValueError, match="must be finite"):
        judge_whole([], None, math.inf)


def test_change_points_are_exact_without_noise():
    assert change_point([2.0] * 10 + [3.0] * 5)[0] == (9, "jump")
    assert change_point([2.0] * 10 + [2.0 + 0.1 * i for i in range(1, 8)])[0] == (9, "creep")
    assert change_point([3.0, 2.0, 1.0])[1] == 0.0  # nothing rises
    staged = [2.0] * 20 + [2.5] * 8 + [4.0] * 20
    assert change_point(staged)[0].last_good == 27
    assert first_departure(staged, 0.05, 2.1).last_good == 19
    assert first_departure(staged, 0.05, 2.6).last_good == 27  # the first stage is within the level's bound


def test_noise_is_that_of_the_samples_around():
    values = losses(lambda t: 3.0, switching(0.1, 0.4, 500), 1000, 1)
    noise = local_noise(values, 0.02)
    assert median(noise.sigma[:400]) == pytest.approx(0.1, rel=0.3)
    assert median(noise.sigma[600:]) == pytest.approx(0.4, rel=0.3)
    assert local_noise([1.0] * 30, 0.02).sigma == [0.02] * 30
    numbers = [random.Random(i).random() for i in range(50)]
    assert running_median(numbers, 3) == [median(numbers[max(0, i - 3) : i + 4]) for i in range(50)]
