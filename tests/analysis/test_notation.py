from __future__ import annotations

import pytest

from analysis import notation
from analysis.statistics import Ratio, summarise
from keel_lab.detect.max_lr import MaxLR, MaxLRKind


def of(*lrs, cut=(), modes=(), **more):
    readings = [MaxLR(MaxLRKind.MEASURED, lr) for lr in lrs] + [MaxLR(MaxLRKind.CENSORED, lr) for lr in cut]
    return summarise(readings, modes, **more)


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
    assert notation.max_lr(summarise([MaxLR(MaxLRKind.NOT_LEARNED)], [])) == "not learned at this slope"
    assert notation.max_lr(summarise([MaxLR(MaxLRKind.UNDECIDED)], [])) == "undecided"
    assert notation.max_lr(of(failed=1)) == "failed"
    assert notation.max_lr(of(not_run=1)) == "not run"


def test_range_in_words():
    assert notation.span(of(0.01, 0.02)) == "1.00e-2 .. 2.00e-2"
    assert notation.span(of(0.01, cut=[0.1])) == "1.00e-2 .. > 0.1"
    assert notation.span(of(cut=[0.1, 0.1])) == "all > 0.1"
    assert notation.span(of(0.01)) == "one seed"
    assert notation.span(of(not_run=2)) == "-"


def test_modes_and_seeds_in_words():
    assert notation.modes(of(0.01, modes=["collapse"])) == "collapse"
    assert notation.modes(of(0.01, 0.02, modes=["collapse"])) == "collapse 1"
    assert notation.modes(of(cut=[0.1])) == "-"
    assert notation.seeds(of(0.01, 0.02)) == "2"
    assert notation.seeds(of(0.01, failed=2)) == "1 of 3"


def test_ratios_in_words():
    assert notation.ratio(Ratio(1.3203, "exact")) == "1.32"
    assert notation.ratio(Ratio(0.03922, "above")) == "> 0.0392"
    assert notation.ratio(Ratio(123.4, "below")) == "< 123"
    assert notation.ratio(None) == "-"
