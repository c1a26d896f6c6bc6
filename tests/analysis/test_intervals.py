"""90% intervals: what they promise in words, exact small cases, and their coverage in simulated sweeps."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from analysis.censored import Bounds
from analysis.intervals import ENOUGH, LEVEL, WIDENING, interval, widening
from analysis.resampling import DRAWS, EXACT, resamples
from benchmarks.interval_coverage import DISTRIBUTIONS, max_lr, ratio

INF = math.inf


def exact(*lrs):
    return [Bounds(lr, lr) for lr in lrs]


def alone(readings):
    """The interval with a data seed a reading."""
    return interval(readings, range(len(readings)))


@pytest.mark.parametrize("n", range(1, EXACT + 1))
def test_few_clusters_have_every_resample_once(n):
    counts, probability = resamples(n)
    assert len({tuple(row) for row in counts.tolist()}) == len(counts) == math.comb(2 * n - 1, n)
    assert set(counts.sum(axis=1)) == {n}
    assert probability.sum() == pytest.approx(1.0)
    assert probability.max() == pytest.approx(math.factorial(n) / n**n)  # each cluster once


def test_many_clusters_have_a_seeded_draw():
    first = resamples(EXACT + 1)
    resamples.cache_clear()
    again = resamples(EXACT + 1)
    assert len(first.counts) == DRAWS
    assert np.array_equal(first.counts, again.counts)


def test_two_and_three_readings_widen_their_range():
    for lrs in ((0.01, 0.02), (0.01, 0.018, 0.02)):
        found = alone(exact(*lrs))
        factor = 2.0 ** WIDENING[len(lrs)]
        assert (found.low, found.high) == pytest.approx((0.01 / factor, 0.02 * factor))
        assert not found.low_open
        assert not found.high_open
        assert found.clusters == len(lrs)


def test_five_readings_stay_within_their_range():
    found = alone(exact(0.01, 0.011, 0.012, 0.013, 0.02))
    assert 0.01 < found.low < 0.011
    assert 0.013 < found.high < 0.02


def test_equal_readings_have_an_interval_without_width():
    found = alone(exact(0.02, 0.02, 0.02))
    assert (found.low, found.high) == (0.02, 0.02)


def test_one_seed_or_one_data_seed_gives_none():
    assert interval(exact(0.02), [0]) is None
    assert interval(exact(0.02, 0.03, 0.05), [7, 7, 7]) is None


def test_readings_of_a_data_seed_are_resampled_together():
    twice = exact(0.01, 0.01, 0.03, 0.03)
    assert interval(twice, [0, 0, 1, 1]) == alone(exact(0.01, 0.03))
    rng = random.Random(0)
    for _ in range(20):
        lrs = exact(*(rng.lognormvariate(-4, 0.2) for _ in range(5)))
        together, apart = interval(lrs * 2, [0, 1, 2, 3, 4] * 2), alone(lrs * 2)
        assert together.clusters == 5
        assert together.high / together.low > apart.high / apart.low


def test_censored_readings_leave_an_end_open():
    found = alone([*exact(0.01, 0.02), Bounds(0.1, INF)])
    assert found.high_open
    assert found.high == 0.1
    assert found.low == pytest.approx(0.01 / 10 ** WIDENING[3])
    mirrored = alone([*exact(50.0, 100.0), Bounds(0.0, 10.0)])
    assert mirrored.low_open
    assert mirrored.low == pytest.approx(10.0)
    assert mirrored.high == pytest.approx(1 / found.low)


def test_readings_that_are_all_censored_bound_the_median_only_if_they_are_enough():
    for n in range(2, 8):
        found = alone([Bounds(0.1, INF)] * n)
        assert (found is None) == (n < ENOUGH)
    assert (found.low, found.high, found.low_open, found.high_open) == (0.1, 0.1, False, True)


def test_an_interval_open_at_both_ends_is_none():
    readings = [Bounds(0.1, INF), *exact(0.05), Bounds(0.0, 0.02)]
    assert interval(readings, [0, 1, 2]) is None
    assert interval(readings, [0, 1, 2], paired=True) is None


def test_bounds_reach_into_the_interval():
    narrow = alone(exact(0.01, 0.02, 0.03, 0.04, 0.05))
    wide = alone([Bounds(lr * 0.9, lr * 1.1) for lr in (0.01, 0.02, 0.03, 0.04, 0.05)])
    assert wide.low == pytest.approx(0.9 * narrow.low, rel=0.02)
    assert wide.high == pytest.approx(1.1 * narrow.high, rel=0.02)


def test_intervals_scale_with_the_readings_and_ignore_their_order():
    rng = random.Random(1)
    for n in (2, 3, 4, 5, 6, 9):
        lrs = [rng.lognormvariate(-4, 0.3) for _ in range(n)]
        found, scaled = alone(exact(*lrs)), alone(exact(*(7 * lr for lr in lrs)))
        assert (scaled.low, scaled.high) == pytest.approx((7 * found.low, 7 * found.high))
        assert alone(exact(*lrs)) == found  # the same to the bit each time
        if n <= EXACT:
            turned = alone(exact(*reversed(lrs)))
            assert (turned.low, turned.high) == pytest.approx((found.low, found.high))


def test_intervals_are_widened_less_the_more_clusters_there_are():
    singles = [widening(n) for n in (2, 3, 4)]
    assert singles == sorted(singles, reverse=True)
    assert widening(1000) < 0.001
    assert all(widening(n, repeats=True) >= widening(n) for n in range(2, 30))


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("cut", [0.0, 0.4])
@pytest.mark.parametrize("name", ["normal, sd 0.3", "skewed down", "flat"])
def test_the_stated_intervals_cover_the_truth_of_500_simulated_sweeps(name, n, cut):
    assert LEVEL - 0.05 <= max_lr(DISTRIBUTIONS[name], n, cut, 500).coverage <= LEVEL + 0.05


def test_intervals_over_repeats_and_of_ratios_cover_the_truth():
    normal = DISTRIBUTIONS["normal, sd 0.3"]
    assert LEVEL - 0.05 <= max_lr(normal, 5, 0.2, 500, repeats=2).coverage <= LEVEL + 0.05
    assert LEVEL - 0.05 <= ratio(normal, 5, 0.2, 500).coverage <= LEVEL + 0.05
