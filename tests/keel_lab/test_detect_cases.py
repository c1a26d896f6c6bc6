"""CASES.md 1 to 5, and everything that is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from keel_lab.curve import Step
from keel_lab.detect.max_lr import MaxLR, MaxLRKind, max_lr
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, State, Status, Verdict
from tests.simulated_curves import TRENDS, curve, gaussian, losses

NAN, INF = math.nan, math.inf


def verdict(steps: Iterable[Step], h1: float | None = None, thresholds: Thresholds | None = None) -> Verdict:
    detector = StreamingDetector(thresholds or Thresholds(), h1)
    for step in steps:
        detector.update(step)
    return detector.verdict()


def healthy(steps: int, seed: object = 0) -> list[float]:
    return losses(TRENDS["power law"], gaussian(0.05), steps, seed)


@pytest.mark.parametrize("h1", [None, 3.2])
def test_case_1_a_nan_does_not_shift_the_answer(h1):
    lrs = [1e-5 * 2**i for i in range(7)]
    steps = [Step(i, loss, lrs[i]) for i, loss in enumerate([0.90, 0.89, 0.87, 0.86, 0.85, 0.84, NAN])]
    found = verdict(steps, h1)
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 6)
    assert (found.last_good_step, found.last_good_lr) == (5, lrs[5])
    assert max_lr(found) == MaxLR(MaxLRKind.MEASURED, lrs[5])


@pytest.mark.parametrize("loss", [0.0, 3.2, 5.545])
def test_case_2_a_constant_loss_is_no_instability(loss):
    found = verdict(curve([loss] * 500))
    assert (found.status, found.mode, found.onset_step, found.last_good_step) == (Status.HEALTHY, None, None, 500)
    assert found.evidence["transients"] == 0
    assert found.evidence["cusum"] == 0.0


@pytest.mark.parametrize("loss", [3.2, 3.15, 3.3, 5.545])
def test_case_2_at_or_above_the_unigram_level_it_is_stagnation(loss):
    found = verdict(curve([loss] * 500), 3.2)
    assert (found.status, found.mode, found.learned) == (Status.DIVERGED, Mode.STAGNATION, False)
    assert (found.onset_step, found.last_good_step, found.last_good_lr) == (None, None, None)
    assert max_lr(found) == MaxLR(MaxLRKind.NOT_LEARNED)


def test_case_2_below_the_unigram_level_it_is_healthy():
    found = verdict(curve([2.5] * 500), 3.2)
    assert (found.status, found.learned, found.censored) == (Status.HEALTHY, True, True)


def test_case_3_a_nan_run_is_a_divergence_with_its_onset():
    values = losses(lambda t: 4.0, gaussian(0.05), 3009, 3) + [NAN] * 200
    detector = StreamingDetector(Thresholds())
    states = [detector.update(step) for step in curve(values)]
    found = detector.verdict()
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 3010)
    assert found.last_good_step == 3009
    assert states.index(State.DIVERGED) == 3011  # at the third in a row, not after
    assert found.evidence["rule"] == "non_finite_in_a_row"
    assert found.evidence["confirmed_step"] == 3012


@pytest.mark.parametrize("after", [3, 5, 500])
def test_case_4_one_inf_that_is_regained_is_a_transient(after):
    r = losses(lambda t: 1.25, gaussian(0.02), 1000 + after, 4)
    values = [*r[:1000], INF, 1.248, *r[1000 : 1000 + after - 1]]
    found = verdict(Step(44459 + i, loss, 1e-3) for i, loss in enumerate(values))
    assert (found.status, found.mode, found.onset_step) == (Status.TRANSIENT, None, None)
    assert found.evidence["transient_steps"] == [45459]
    assert found.evidence["non_finite_steps"] == 1
    assert found.censored
    assert found.last_good_step == 45459 + after


def test_case_5_brackets_the_largest_lr():
    failing = [1.109, 1.537, 0.866, 1.327, 1.200, NAN, NAN, NAN, NAN, NAN]
    for lr in (0.01, 0.1):
        found = verdict(Step(i, loss, lr) for i, loss in enumerate(failing))
        assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 5)
        assert (found.last_good_step, found.last_good_lr) == (4, lr)
    fine = verdict(Step(i, loss, 0.001) for i, loss in enumerate(healthy(100)))
    assert max_lr(fine) == MaxLR(MaxLRKind.CENSORED, 0.001)


@pytest.mark.parametrize("count", [1, 2])
def test_a_curve_that_ends_on_a_non_finite_loss_diverged_there(count):
    found = verdict(curve([*healthy(100), *[NAN] * count]))
    assert (found.status, found.mode, found.onset_step, found.last_good_step) == (
        Status.DIVERGED,
        Mode.NON_FINITE,
        101,
        100,
    )
    assert found.evidence["rule"] == "non_finite_at_end"


def test_an_inf_whose_level_stays_lost_dates_the_divergence():
    values = [*healthy(300), INF, *[5.0 + x for x in losses(lambda t: 0.0, gaussian(0.05), 200, 1)]]
    found = verdict(curve(values))
    assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE)
    assert found.onset_step in (300, 301)


def test_two_and_two_are_not_four_in_a_row_but_never_regained_is_a_divergence():
    two_and_two = [*healthy(100), NAN, NAN, *healthy(40, 1), NAN, NAN, *healthy(40, 2)]
    assert verdict(curve(_at_level(two_and_two))).status is Status.TRANSIENT
    broken = [*healthy(100), *[NAN, NAN, 2.9] * 60]
    found = verdict(curve(broken))
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 101)


def _at_level(values: list[float]) -> list[float]:
    """The same non-finite steps in a curve of constant level."""
    calm = losses(lambda t: 2.0, gaussian(0.05), len(values), 9)
    return [c if math.isfinite(v) else v for v, c in zip(values, calm, strict=True)]


def test_weights_that_are_not_finite_end_it_at_once():
    steps = curve(healthy(100))
    steps[60] = steps[60]._replace(weights_finite=False)
    found = verdict(steps)
    assert (found.status, found.mode, found.onset_step) == (Status.DIVERGED, Mode.NON_FINITE, 61)
    assert found.evidence["rule"] == "non_finite_weights"
    loss_first = curve([*healthy(59), NAN, 3.0])
    loss_first[59] = loss_first[59]._replace(weights_finite=False)
    assert verdict(loss_first).onset_step == 60


@pytest.mark.parametrize(
    ("change", "events"),
    [({"grad_norm": INF}, 1), ({"grad_norm": -INF}, 1), ({"skipped": True}, 1), ({"grad_norm": NAN}, 0)],
)
def test_gradients_not_finite_or_skipped_updates_count_but_an_unknown_norm_does_not(change, events):
    steps = curve(healthy(200))
    steps[100] = steps[100]._replace(**change)
    found = verdict(steps)
    assert found.status is (Status.TRANSIENT if events else Status.HEALTHY)
    assert found.evidence["non_finite_steps"] == events


def test_a_rise_that_ends_in_nan_keeps_the_onset_of_the_rise():
    rise = [3.0 + 0.2 * i for i in range(40)]
    found = verdict(curve([*_at_level([2.0] * 300), *rise, NAN, NAN, NAN]))
    assert (found.mode, found.onset_step, found.last_good_step) == (Mode.NON_FINITE, 301, 300)


@pytest.mark.parametrize("values", [[], [3.0], [3.0] * 7, [3.0, 9.0, 1.0, 4.0, 2.0], [3.0, NAN, 3.0]])
def test_under_eight_samples_nothing_is_decided(values):
    found = verdict(curve(values))
    assert (found.status, found.last_good_step, found.learned) == (Status.UNDECIDED, None, None)
    assert max_lr(found).kind is MaxLRKind.UNDECIDED


def test_nothing_but_nan_has_no_good_step():
    found = verdict(curve([NAN] * 10))
    assert (found.status, found.mode, found.onset_step, found.last_good_step) == (
        Status.DIVERGED,
        Mode.NON_FINITE,
        1,
        None,
    )
    assert max_lr(found).kind is MaxLRKind.NOT_LEARNED
