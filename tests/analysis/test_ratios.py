"""Ratios paired by seed, with censoring on either side."""

from __future__ import annotations

import math

import pytest

from analysis.ratios import Ratio, paired_ratio
from analysis.seed_reading import SeedReading
from keel_lab.detect.max_lr import MaxLR, MaxLRKind

INF = math.inf
NEVER = MaxLR(MaxLRKind.NOT_LEARNED)


def cell(*lrs, cut=(), seeds=None):
    """Readings with seeds 0, 1, ...; `cut` are positions whose LR is only a lower bound."""
    seeds = seeds or range(len(lrs))
    return [
        SeedReading.of(NEVER, seed, seed)
        if lr is None
        else SeedReading.between(lr, INF if at in cut else lr, seed, seed)
        for at, (lr, seed) in enumerate(zip(lrs, seeds, strict=True))
    ]


def test_one_pair_has_a_ratio_and_no_interval():
    found = paired_ratio(cell(0.02), cell(0.08))
    assert (found.value, found.kind, found.pairs, found.interval) == (0.25, "exact", 1, None)


def test_the_median_of_ratios_is_not_the_ratio_of_medians():
    found = paired_ratio(cell(0.01, 0.02, 0.09), cell(0.02, 0.01, 0.03))
    assert found.value == 2.0  # of 0.5, 2 and 3; the medians have a ratio of 1
    assert found.pairs == 3
    assert found.interval.low < 0.5
    assert found.interval.high > 3.0


def test_what_a_pair_shares_cancels():
    luck = (0.5, 1.0, 2.0, 0.8, 1.4)
    found = paired_ratio(cell(*(0.02 * one for one in luck)), cell(*(0.05 * one for one in luck)))
    assert found.value == pytest.approx(0.4)
    assert found.interval.low == pytest.approx(0.4)
    assert found.interval.high == pytest.approx(0.4)


def test_pairs_are_found_by_both_seeds_and_others_stand_aside():
    one, other = cell(0.01, 0.02, 0.04), cell(0.02, 0.02, seeds=[2, 9])
    found = paired_ratio(one, other)
    assert (found.value, found.pairs) == (2.0, 1)
    assert paired_ratio(one, cell(0.02, seeds=[7])) is None
    assert paired_ratio(cell(None, None), cell(0.01, 0.02)) is None
    apart = [SeedReading.between(0.02, 0.02, init_seed=0, data_seed=1)]
    assert paired_ratio(cell(0.01, seeds=[1]), apart) is None


def test_pairs_of_a_data_seed_are_one_cluster():
    def four(*lrs):
        """Two data seeds with two initial seeds each; an LR a data seed."""
        return [SeedReading.between(lrs[at // 2], lrs[at // 2], init_seed=at % 2, data_seed=at // 2) for at in range(4)]

    found = paired_ratio(four(0.01, 0.02), four(0.1, 0.1))
    assert found.pairs == 4
    assert found.interval.clusters == 2
    assert found.interval == paired_ratio(cell(0.01, 0.02), cell(0.1, 0.1)).interval


@pytest.mark.parametrize(
    ("one", "other", "kind", "value"),
    [
        (cell(0.1, cut=[0]), cell(0.05), "above", 2.0),
        (cell(0.05), cell(0.1, cut=[0]), "below", 0.5),
        (cell(0.1, 0.05, 0.02, cut=[0]), cell(0.05, 0.05, 0.05), "exact", 1.0),  # the median of > 2, 1 and 0.4
        (cell(0.1, 0.1, 0.02, cut=[0, 1]), cell(0.05, 0.02, 0.05), "above", 2.0),  # of > 2, > 5 and 0.4: not > 5
        (cell(0.1, 0.05, 0.01, cut=[0]), cell(0.05, 0.1, 0.01, cut=[1]), "exact", 1.0),  # of > 2, < 0.5 and 1
    ],
)
def test_censoring_is_honoured(one, other, kind, value):
    found = paired_ratio(one, other)
    assert found.kind == kind
    assert found.value == pytest.approx(value)


def test_a_median_between_censored_pairs_is_known_within_bounds():
    # > 2, < 5, 3: whatever the first two are, the median lies between 2 and 5
    found = paired_ratio(cell(0.2, 0.05, 0.03, cut=[0]), cell(0.1, 0.01, 0.01, cut=[1]))
    assert found.kind == "within"
    assert found.bounds == pytest.approx((2.0, 5.0))


def test_pairs_of_which_nothing_is_known_count_against_the_rest():
    both = cell(0.1, 0.1, 0.03, cut=[0, 1])
    assert paired_ratio(both, cell(0.1, 0.1, 0.01, cut=[0, 1])) is None
    found = paired_ratio(cell(0.1, 0.02, 0.03, cut=[0]), cell(0.1, 0.01, 0.01, cut=[0]))
    assert found.bounds == (2.0, 3.0)
    assert found.interval is None


def test_a_ratio_by_itself_has_no_pairs():
    one = paired_ratio(cell(0.02), cell(0.02)).bounds
    assert Ratio(one).pairs is None
    assert Ratio(one).value == 1.0
