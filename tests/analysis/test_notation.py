from __future__ import annotations

import math

import pytest

from analysis import notation
from analysis.censored import Bounds
from analysis.intervals import Interval
from analysis.ratios import Ratio
from analysis.seed_reading import SeedReading
from analysis.statistics import summarise
from keel_lab.detect.max_lr import MaxLR, MaxLRKind


def of(*lrs, cut=(), modes=(), **more):
    readings = [MaxLR(MaxLRKind.MEASURED, lr) for lr in lrs] + [MaxLR(MaxLRKind.CENSORED, lr) for lr in cut]
    return summarise(seeded(readings), modes, **more)


def seeded(readings):
    return [SeedReading.of(one, seed, seed) for seed, one in enumerate(readings)]


@pytest.mark.parametrize(
    ("lr", "text"),
    [(1e-5, "1.00e-5"), (3e-5, "3.00e-5"), (0.025118, "2.51e-2"), (0.09996, "0.100"), (0.1, "0.100"), (1.5, "1.50")],
)
def test_readings_have_three_digits(lr, text):
    assert notation.reading(lr) == text


@pytest.mark.parametrize(("lr", "text"), [(0.1, "0.1"), (0.05, "0.05"), (1e-4, "1e-4"), (0.0123456, "1.23e-2")])
def test_bounds_are_written_as_they_were_set(lr, text):
    assert notation.bound(lr) == text


def test_max_lr_in_words():
    assert notation.max_lr(of(0.0251)) == "2.51e-2"
    assert notation.max_lr(of(cut=[0.1])) == "> 0.1 (censored)"
    assert notation.max_lr(summarise(seeded([MaxLR(MaxLRKind.NOT_LEARNED)]))) == "not learned at this slope"
    assert notation.max_lr(summarise(seeded([MaxLR(MaxLRKind.UNDECIDED)]))) == "undecided"
    assert notation.max_lr(of(failed=1)) == "failed"
    assert notation.max_lr(of(not_run=1)) == "not run"


def test_bounds_from_below_in_words():
    assert notation.max_lr(summarise([SeedReading.between(0.0, 0.05, 0, 0)])) == "< 0.05 (held)"


def test_max_lr_with_its_interval_in_words():
    assert notation.max_lr_interval(of(0.01, 0.0102, 0.0104)) == "1.02e-2 [9.84e-3, 1.06e-2]"
    assert notation.max_lr_interval(of(0.05, 0.06, cut=[0.1])) == "6.00e-2 [3.74e-2, > 0.1]"
    assert notation.max_lr_interval(of(0.08, cut=[0.1, 0.1])) == "> 0.1 [7.28e-2, > 0.1]"
    assert notation.max_lr_interval(of(cut=[0.1] * 6)) == "> 0.1 (censored)"
    assert notation.max_lr_interval(of(0.01, not_run=2)) == "1.00e-2 (no interval)"
    assert notation.max_lr_interval(of(cut=[0.1])) == "> 0.1 (censored)"
    assert notation.max_lr_interval(of(not_run=2)) == "not run"


def test_modes_and_seeds_in_words():
    assert notation.modes(of(0.01, modes=["collapse"])) == "collapse"
    assert notation.modes(of(0.01, 0.02, modes=["collapse"])) == "collapse 1"
    assert notation.modes(of(cut=[0.1])) == "-"
    assert notation.seeds(of(0.01, 0.02)) == "2"
    assert notation.seeds(of(0.01, failed=2)) == "1 of 3"


def exactly(value, **more):
    return Ratio(Bounds(value, value), **more)


def test_ratios_in_words():
    assert notation.ratio(exactly(1.3203)) == "1.32"
    assert notation.ratio(Ratio(Bounds(0.03922, math.inf))) == "> 0.0392"
    assert notation.ratio(Ratio(Bounds(0.0, 123.4))) == "< 123"
    assert notation.ratio(Ratio(Bounds(2.0, 5.0))) == "2.00 .. 5.00"
    assert notation.ratio(None) == "-"


def test_ratios_with_their_interval_in_words():
    known = Interval(0.131, 0.19, False, False, 3)
    assert notation.ratio_interval(exactly(0.156, pairs=3, interval=known), 3) == "0.156 [0.131, 0.190]"
    assert notation.ratio_interval(exactly(0.156, pairs=3, interval=known), 4) == "0.156 [0.131, 0.190] (3 pairs)"
    assert notation.ratio_interval(exactly(0.156, pairs=1), 3) == "0.156 (no interval, 1 pair)"
    half_open = Interval(0.5, 2.0, True, False, 3)
    assert notation.ratio_interval(Ratio(Bounds(0.0, 1.5), 3, half_open), 3) == "< 1.50 [< 0.500, 2.00]"
    assert notation.ratio_interval(exactly(1.0), 3) == "1.00"
    assert notation.ratio_interval(None, 3) == "-"
