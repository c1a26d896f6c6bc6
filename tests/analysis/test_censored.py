"""Medians of censored readings by hand, against scipy's product limit, and against a maximised likelihood."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import CensoredData, ecdf

from analysis.censored import Bounds, _product_limit, enclosing_medians, median, medians

INF = math.inf


def exact(*lrs):
    return [Bounds(lr, lr) for lr in lrs]


def above(*lrs):
    return [Bounds(lr, INF) for lr in lrs]


def below(*lrs):
    return [Bounds(0.0, lr) for lr in lrs]


@pytest.mark.parametrize(
    ("readings", "low", "high"),
    [
        (exact(0.02), 0.02, 0.02),
        (exact(0.01, 0.02, 0.09), 0.02, 0.02),
        (exact(0.01, 0.04), 0.02, 0.02),  # the middle on log LR, not 0.025
        (exact(0.01, 0.02, 0.08, 0.09), 0.04, 0.04),
        (above(0.1, 0.1, 0.1), 0.1, INF),
        (exact(0.02, 0.03) + above(0.1), 0.03, 0.03),  # S: 2/3, 1/3
        (exact(0.02) + above(0.1, 0.1), 0.1, INF),  # S stays at 2/3
        (exact(0.02, 0.03) + above(0.1, 0.1, 0.1), 0.1, INF),  # S stays at 3/5
        (exact(0.025) + above(0.1), 0.05, INF),  # S stays at 1/2: above the middle of 0.025 and 0.1
        (exact(0.01, 0.04) + above(0.02), 0.04, 0.04),  # S: 2/3, then the only one left at risk falls: 0
        (exact(0.02, 0.02, 0.05) + above(0.02), math.sqrt(0.02 * 0.05), math.sqrt(0.02 * 0.05)),  # a tie; S: 1/2, 0
        (exact(0.03, 0.03, 0.03), 0.03, 0.03),
        (below(0.01) + exact(0.02, 0.03), 0.02, 0.02),
        (below(0.01, 0.01) + exact(0.02), 0.0, 0.01),
        (below(0.01) + exact(0.04), 0.0, 0.02),
        (below(0.01) + exact(0.02) + above(0.1), 0.02, 0.02),
        (below(0.01) + above(0.1), 0.0, INF),  # nothing is known
        ([Bounds(0.01, 0.02)], 0.01, 0.02),
        ([Bounds(0.01, 0.03), Bounds(0.02, 0.05), *above(0.1)], 0.02, 0.03),  # both first ones may lie there
        ([Bounds(0.01, 0.02), Bounds(0.04, 0.08)], 0.02, 0.04),  # middles of the lower and of the upper ends
    ],
)
def test_medians_by_hand(readings, low, high):
    found = median(readings)
    assert found.low == pytest.approx(low, rel=1e-12)
    assert found.high == pytest.approx(high, rel=1e-12)


@given(st.lists(st.floats(1e-5, 1.0), min_size=1, max_size=12))
def test_without_censoring_it_is_the_ordinary_median_on_log_lr(lrs):
    found = median(exact(*lrs))
    assert found.low == found.high == pytest.approx(math.exp(np.median(np.log(lrs))), rel=1e-12)


def test_an_odd_number_of_exact_readings_gives_one_of_them_to_the_bit():
    assert median(exact(0.0123, 0.1, 0.3)) == (0.1, 0.1)


def some_readings(rng, kinds):
    """Up to nine readings of made-up kinds."""
    found = []
    for _ in range(rng.randint(1, 9)):
        lr, kind = 10 ** rng.uniform(-4, -1), rng.choice(kinds)
        width = {"exact": (1, 1), "above": (1, INF), "below": (0, 1), "within": (1, 10 ** rng.uniform(0, 1))}[kind]
        found.append(Bounds(lr * width[0], lr * width[1]))
    return found


def test_right_censored_medians_are_where_scipys_survival_passes_one_half():
    rng, decided = random.Random(0), 0
    for _ in range(300):
        readings = some_readings(rng, ["exact", "exact", "above"])
        events = [one.low for one in readings if one.low == one.high]
        limits = [one.low for one in readings if one.low != one.high]
        survival = ecdf(CensoredData(uncensored=events, right=limits)).sf
        if any(abs(survival.probabilities - 0.5) < 1e-9):
            continue  # a convention, fixed by hand above
        decided += 1
        passed = survival.quantiles[survival.probabilities < 0.5 - 1e-9]
        largest = max(one.low for one in readings)
        assert median(readings) == ((passed[0], passed[0]) if len(passed) else (largest, INF))
    assert decided > 100


def likeliest_median(readings):
    """The innermost intervals, their likeliest masses by a general optimiser, and the one in which 1/2 is passed.

    None where 1/2 is met so nearly that which interval holds the median is not clear.
    """
    lows, highs = sorted({one.low for one in readings}), sorted({one.high for one in readings})
    spans = [(low, min(high for high in highs if high >= low)) for low in lows]
    spans = [(low, high) for low, high in spans if not any(low < other < high for other in lows)]
    inside = np.array([[one.low <= low and high <= one.high for low, high in spans] for one in readings], dtype=float)

    def loss(z):
        mass = np.exp(z - z.max())
        return -np.log(inside @ (mass / mass.sum())).sum()

    z = minimize(loss, np.zeros(len(spans)), method="BFGS", options={"gtol": 1e-9, "maxiter": 3000}).x
    reached = np.cumsum(np.exp(z - z.max())) / np.exp(z - z.max()).sum()
    at = int((reached > 0.5).argmax())
    before = reached[at - 1] if at else 0.0
    return None if reached[at] < 0.52 or before > 0.48 else spans[at]


def test_interval_censored_medians_are_those_of_the_likeliest_distribution():
    rng, decided = random.Random(1), 0
    for _ in range(120):
        readings = some_readings(rng, ["above", "below", "within", "within"])
        expected = likeliest_median(readings)
        if expected is not None:
            decided += 1
            assert median(readings) == pytest.approx(expected, rel=1e-12)
    assert decided > 60


def test_the_two_estimates_agree_where_both_hold():
    rng = random.Random(2)
    for _ in range(100):
        readings = [*some_readings(rng, ["exact", "above"]), *exact(1.0)]
        narrow = [*readings[:-1], Bounds(1.0 - 1e-12, 1.0)]  # makes it Turnbull's
        assert median(narrow) == pytest.approx(median(readings), rel=1e-6)


@pytest.mark.parametrize("kinds", [["exact", "above"], ["exact", "below"], ["exact", "above", "below", "within"]])
def test_reciprocals_have_the_reciprocal_median(kinds):
    rng = random.Random(3)
    for _ in range(50):
        readings = some_readings(rng, kinds)
        mirrored = median([Bounds(1 / one.high, INF if one.low == 0.0 else 1 / one.low) for one in readings])
        low, high = median(readings)
        assert mirrored == pytest.approx((1 / high, INF if low == 0.0 else 1 / low), rel=1e-9)


@pytest.mark.parametrize("kinds", [["exact", "above"], ["exact", "below"], ["exact", "above", "below", "within"]])
def test_weights_are_repeated_readings(kinds):
    rng = random.Random(4)
    for _ in range(50):
        readings = some_readings(rng, kinds)
        rows = [[rng.randint(0, 3) for _ in readings] for _ in range(6)]
        rows = [row if any(row) else [1] * len(readings) for row in rows]
        low, high = (np.array(ends) for ends in zip(*readings, strict=True))
        lows, highs = medians(low, high, np.array(rows))
        for row, *found in zip(rows, lows, highs, strict=True):
            repeated = [one for one, times in zip(readings, row, strict=True) for _ in range(times)]
            assert tuple(found) == pytest.approx(median(repeated), rel=1e-6)


def test_enclosing_medians_hold_every_completion():
    rng = random.Random(5)
    for _ in range(100):
        readings = some_readings(rng, ["exact", "above", "below", "within"])
        low, high = (np.array(ends) for ends in zip(*readings, strict=True))
        lows, highs = enclosing_medians(low, high, np.ones((1, len(readings)), dtype=int))
        numbers = [rng.uniform(max(one.low, 1e-6), min(one.high, 10.0)) for one in readings]
        middle = math.exp(np.median(np.log(numbers)))
        assert lows[0] <= middle * (1 + 1e-9)
        assert middle <= highs[0] * (1 + 1e-9)


def test_points_that_stand_for_bounds():
    assert Bounds(0.1, 0.1).point == 0.1
    assert Bounds(0.1, INF).point == 0.1
    assert Bounds(0.0, 0.1).point == 0.1
    assert Bounds(0.01, 0.04).point == pytest.approx(0.02)
    assert Bounds(0.0, INF).point is None


def test_exact_readings_have_the_product_limits_median_to_the_bit():
    rng = np.random.default_rng(7)
    for _ in range(300):
        n = int(rng.integers(1, 12))
        lrs = np.round(10 ** rng.uniform(-4, -1, n), int(rng.integers(3, 9))) + 1e-9  # with ties
        weights = rng.integers(0, 4, (20, n))
        weights[:, 0] += weights.sum(axis=1) == 0
        lows, highs = medians(lrs, lrs, weights)
        by_limit = _product_limit(lrs, np.ones(n, dtype=bool), weights)
        assert lows.tobytes() == by_limit[0].tobytes() == by_limit[1].tobytes()
        assert highs.tobytes() == lows.tobytes()
