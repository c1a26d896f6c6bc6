"""Ratios of Max LR between two cells, paired by seed: what the runs of a pair share (weights, data order) cancels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.censored import Bounds, enclosing_medians
from analysis.intervals import Interval, interval
from analysis.seed_reading import SeedReading


@dataclass(frozen=True)
class Ratio:
    """The median of the ratios at equal seeds.

    Attributes:
        bounds: where the median lies: equal, or with an open end (0, infinity), or an interval.
        pairs: seeds with a reading in both cells; None for a ratio that stands by itself, such as a cell's to itself.
        interval: its 90% interval; None for one pair, and where `intervals.interval` says so.
    """

    bounds: Bounds
    pairs: int | None = None
    interval: Interval | None = None

    @property
    def kind(self) -> Literal["exact", "above", "below", "within"]:
        """Which of the bounds are known."""
        low, high = self.bounds
        return "exact" if low == high else "above" if math.isinf(high) else "below" if low == 0.0 else "within"

    @property
    def value(self) -> float:
        """The point that stands for `bounds`."""
        assert self.bounds.point is not None
        return self.bounds.point


def paired_ratio(cell: Sequence[SeedReading], reference: Sequence[SeedReading]) -> Ratio | None:
    """The ratio of a cell to a reference over the seeds that both have a reading of.

    A pair is bounded by the quotients of its bounds. Its censoring depends on the reference's own reading, so
    Kaplan-Meier would be biased; the medians of the lower and of the upper bounds hold without an assumption.

    Returns:
        None without a pair, or where so many pairs are censored on both sides that nothing is known of the median.
    """
    beside = {(one.init_seed, one.data_seed): one.bounds for one in reference if one.bounds is not None}
    pairs = [
        (_quotient(one.bounds, beside[one.init_seed, one.data_seed]), one.data_seed)
        for one in cell
        if one.bounds is not None and (one.init_seed, one.data_seed) in beside
    ]
    if not pairs:
        return None
    quotients = [quotient for quotient, _ in pairs]
    low, high = (np.array(ends, dtype=float) for ends in zip(*quotients, strict=True))
    lows, highs = enclosing_medians(low, high, np.ones((1, len(pairs)), dtype=np.int64))
    bounds = Bounds(float(lows[0]), float(highs[0]))
    if bounds.point is None:
        return None
    return Ratio(bounds, len(pairs), interval(quotients, [cluster for _, cluster in pairs], paired=True))


def _quotient(cell: Bounds, reference: Bounds) -> Bounds:
    return Bounds(
        0.0 if math.isinf(reference.high) else cell.low / reference.high,
        math.inf if reference.low == 0.0 else cell.high / reference.low,
    )
