"""What the seeds of one cell say together."""

from __future__ import annotations

import pytest

from analysis.intervals import interval
from analysis.seed_reading import SeedReading
from analysis.statistics import coverage, summarise
from keel_lab.detect.max_lr import MaxLR, MaxLRKind


def measured(lr):
    return MaxLR(MaxLRKind.MEASURED, lr)


def censored(lr):
    return MaxLR(MaxLRKind.CENSORED, lr)


NEVER = MaxLR(MaxLRKind.NOT_LEARNED)
UNDECIDED = MaxLR(MaxLRKind.UNDECIDED)


def seeded(*readings):
    return [SeedReading.of(one, seed, seed) for seed, one in enumerate(readings)]


def test_mixed_seeds_are_all_counted():
    readings = seeded(measured(0.02), NEVER, censored(0.1), measured(0.05), UNDECIDED)
    value = summarise(readings, ["collapse", "irrecoverable", "stagnation"], failed=1, not_run=2)
    assert (value.kind, value.median, value.low, value.high) == ("measured", 0.05, 0.02, 0.1)
    assert (value.n, value.measured, value.censored, value.below, value.planned) == (3, 2, 1, 0, 8)
    assert (value.not_learned, value.undecided, value.failed, value.not_run) == (1, 1, 1, 2)


def test_the_interval_is_that_of_the_readings():
    value = summarise(seeded(measured(0.02), NEVER, censored(0.1), measured(0.05)))
    bounds = [one.bounds for one in seeded(measured(0.02), censored(0.1), measured(0.05))]
    assert value.interval == interval(bounds, [0, 2, 3])
    assert value.interval.high_open


def test_one_seed_has_a_median_and_no_interval():
    value = summarise(seeded(measured(0.02)))
    assert (value.median, value.interval, value.coverage, value.clusters) == (0.02, None, None, 1)


def test_seeds_that_share_their_data_are_one_cluster():
    readings = [SeedReading.of(measured(0.01 * (1 + seed)), seed, data_seed=seed // 2) for seed in range(4)]
    value = summarise(readings)
    assert (value.n, value.clusters, value.interval.clusters) == (4, 2, 2)
    assert value.coverage == 0.5
    assert summarise(readings[:2]).interval is None


def test_bounds_from_other_protocols_fit_in():
    value = summarise([SeedReading.between(0.01, 0.02, 0, 0)])
    assert (value.kind, value.measured, value.bounds) == ("measured", 1, (0.01, 0.02))
    assert value.median == pytest.approx(0.02 / 2**0.5)
    value = summarise([SeedReading.between(0.0, 0.02, 0, 0), *seeded(NEVER)])
    assert (value.kind, value.median, value.below, value.n, value.not_learned) == ("below", 0.02, 1, 1, 1)
    value = summarise([SeedReading.between(0.0, 0.02, 0, 0), SeedReading.of(censored(0.1), 1, 1)])
    assert (value.kind, value.median, value.bounds, value.interval) == ("undecided", None, None, None)
    assert (value.low, value.high) == (0.02, 0.1)


def test_modes_are_counted_most_frequent_first():
    value = summarise(seeded(*[measured(0.1)] * 3), ["irrecoverable", "collapse", "collapse"])
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
    value = summarise(seeded(*readings), failed=failed, not_run=not_run)
    assert value.kind == kind
    assert (value.median is None) == (kind != "censored")


def test_range_coverage_is_the_binomial_one():
    assert coverage(3) == 0.75
    assert coverage(5) == 0.9375
    assert summarise(seeded(measured(0.1))).coverage is None
    assert summarise(seeded(*[measured(0.1)] * 3)).coverage == 0.75
