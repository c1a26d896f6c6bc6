"""Medians, ranges and ratios by hand, and against scipy's product-limit estimate."""

from __future__ import annotations

import math
import random

import pytest
from scipy.stats import CensoredData, ecdf

from analysis.statistics import Ratio, coverage, log_median, ratio_of, summarise
from keel_lab.detect.max_lr import MaxLR, MaxLRKind


def measured(lr):
    return MaxLR(MaxLRKind.MEASURED, lr)


def censored(lr):
    return MaxLR(MaxLRKind.CENSORED, lr)


NEVER = MaxLR(MaxLRKind.NOT_LEARNED)
UNDECIDED = MaxLR(MaxLRKind.UNDECIDED)


@pytest.mark.parametrize(
    ("events", "limits", "expected"),
    [
        ([0.02], [], (0.02, False)),
        ([0.01, 0.02, 0.09], [], (0.02, False)),
        ([0.01, 0.04], [], (0.02, False)),  # the middle on log LR, not 0.025
        ([0.01, 0.02, 0.08, 0.09], [], (0.04, False)),
        ([], [0.1, 0.1, 0.1], (0.1, True)),
        ([0.02, 0.03], [0.1], (0.03, False)),  # S: 2/3, 1/3
        ([0.02], [0.1, 0.1], (0.1, True)),  # S stays at 2/3
        ([0.02, 0.03], [0.1, 0.1, 0.1], (0.1, True)),  # S stays at 3/5
        ([0.025], [0.1], (0.05, True)),  # S stays at 1/2: above the middle of 0.025 and 0.1
        ([0.01, 0.04], [0.02], (0.04, False)),  # S: 2/3, then the only one left at risk falls: 0
        ([0.02, 0.02, 0.05], [0.02], (math.sqrt(0.02 * 0.05), False)),  # a tie: censored after; S: 1/2, 0
        ([0.03, 0.03, 0.03], [], (0.03, False)),
    ],
)
def test_median_honours_censoring(events, limits, expected):
    lr, is_bound = log_median(events, limits)
    assert (pytest.approx(expected[0], rel=1e-12), expected[1]) == (lr, is_bound)


def test_no_readings_have_no_median():
    assert log_median([], []) is None


def test_median_is_where_scipys_survival_passes_one_half():
    rng, decided = random.Random(0), 0
    for _ in range(300):
        lrs = [10 ** rng.uniform(-4, -1) for _ in range(rng.randint(1, 9))]
        flags = [rng.random() < 0.4 for _ in lrs]
        events = [lr for lr, cut in zip(lrs, flags, strict=True) if not cut]
        limits = [lr for lr, cut in zip(lrs, flags, strict=True) if cut]
        survival = ecdf(CensoredData(uncensored=events, right=limits)).sf
        below = survival.quantiles[survival.probabilities < 0.5 - 1e-9]
        lr, is_bound = log_median(events, limits)
        if any(abs(survival.probabilities - 0.5) < 1e-9):
            continue  # a convention, fixed by hand above
        decided += 1
        assert is_bound == (not len(below))
        assert lr == (max(lrs) if is_bound else below[0])
    assert decided > 100


def test_mixed_seeds_are_all_counted():
    readings = [measured(0.02), NEVER, censored(0.1), measured(0.05), UNDECIDED]
    value = summarise(readings, ["collapse", "irrecoverable", "stagnation"], failed=1, not_run=2)
    assert (value.kind, value.median, value.low, value.high) == ("measured", 0.05, 0.02, 0.1)
    assert (value.n, value.measured, value.censored, value.planned) == (3, 2, 1, 8)
    assert (value.not_learned, value.undecided, value.failed, value.not_run) == (1, 1, 1, 2)


def test_modes_are_counted_most_frequent_first():
    value = summarise([measured(0.1)] * 3, ["irrecoverable", "collapse", "collapse"])
    assert value.modes == (("collapse", 2), ("irrecoverable", 1))


@pytest.mark.parametrize(
    ("readings", "failed", "not_run", "kind"),
    [
        ([NEVER, NEVER], 0, 0, "not_learned"),
        ([UNDECIDED, NEVER], 1, 1, "not_learned"),
        ([UNDECIDED], 1, 1, "undecided"),
        ([], 1, 1, "failed"),
        ([], 0, 3, "not_run"),
        ([censored(0.1)], 0, 2, "censored"),
    ],
)
def test_without_a_median_the_kind_says_why(readings, failed, not_run, kind):
    value = summarise(readings, [], failed=failed, not_run=not_run)
    assert value.kind == kind
    assert (value.median is None) == (kind != "censored")


def test_range_coverage_is_the_binomial_one():
    assert coverage(3) == 0.75
    assert coverage(5) == 0.9375
    assert summarise([measured(0.1)], []).coverage is None
    assert summarise([measured(0.1)] * 3, []).coverage == 0.75


def test_ratios_know_their_censoring():
    low, high, cut = (summarise([one], []) for one in (measured(0.02), measured(0.05), censored(0.1)))
    assert ratio_of(high, low) == Ratio(0.05 / 0.02, "exact")
    assert ratio_of(cut, low) == Ratio(0.1 / 0.02, "above")
    assert ratio_of(low, cut) == Ratio(0.02 / 0.1, "below")
    assert ratio_of(cut, cut) is None
    assert ratio_of(low, summarise([NEVER], [])) is None
