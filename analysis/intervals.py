"""90% intervals of a median over few seeds: a bootstrap over clusters, widened where that is known to fall short.

What an interval covers is measured by benchmarks/interval_coverage.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.censored import Bounds, Floats, enclosing_medians, medians
from analysis.resampling import resamples

Tails = tuple[float, float]

LEVEL = 0.90

WIDENING = {2: 3.0, 3: 0.42, 4: 0.12, 5: 0.0}
"""By clusters of one reading: what each end moves out by, as a fraction of the bootstrap interval's width on log LR.

No bootstrap median leaves the range of the readings. For any distribution that range covers the median in 50, 75 and
87.5% of cases for 2, 3 and 4 independent readings, in 93.75% for 5. What lies beyond must be assumed: the fractions
make it about 90% for a normal log LR (for 2 readings Student's t would have 2.66) and 85 to 95% for flat, skewed,
two-peaked and heavy-tailed ones.
"""

WIDENING_OF_REPEATS = {2: 3.0, 3: 0.59, 4: 0.33, 5: 0.23}
"""The same where a cluster holds several readings.

The median then varies smoothly, as a mean does, and a percentile interval of a mean of k values is too short by
sqrt((k - 1) / k) and by the normal for Student's t quantile (Hesterberg, The American Statistician 69, 2015).
"""

SHRINKING, SHRINKING_OF_REPEATS = 0.4, 1.0
"""Beyond 5 clusters the fraction is this over their number."""

ENOUGH = 5
"""Clusters from which the readings themselves bound the median often enough.

All fall on one side of it in 3% of cases for 5 independent readings, in 6% for 4.
"""


@dataclass(frozen=True)
class Interval:
    """A 90% interval of a median LR or ratio.

    Attributes:
        low, high: its ends; with `low_open` the lower end lies below `low`, nobody knows how far, and so `high_open`.
        clusters: how many independent groups of readings it stands on.
    """

    low: float
    high: float
    low_open: bool
    high_open: bool
    clusters: int


def widening(clusters: int, *, repeats: bool = False) -> float:
    """By what fraction of its width an interval is widened on each side; `repeats`: a cluster has several readings."""
    if repeats:
        return WIDENING_OF_REPEATS.get(clusters, SHRINKING_OF_REPEATS / clusters)
    return WIDENING.get(clusters, SHRINKING / clusters)


def interval(readings: Sequence[Bounds], clusters: Sequence[int], *, paired: bool = False) -> Interval | None:
    """The 90% interval of the median of readings, of which those of a cluster are resampled together.

    Args:
        readings: LRs, or ratios, at most one of whose ends is open.
        clusters: of each reading, its data seed.
        paired: readings are ratios, whose censoring depends on their value: `enclosing_medians` instead of `medians`.

    Returns:
        None for fewer than two clusters, where nothing tells how far they scatter; where both ends would be open; and
        where all readings are censored on one side in fewer than `ENOUGH` clusters.
    """
    names, cluster_of = np.unique(np.array(clusters, dtype=np.int64), return_inverse=True)
    number = len(names)
    low, high = (np.array(ends, dtype=float) for ends in zip(*readings, strict=True))
    one_sided = bool(np.all(high == np.inf) or np.all(low == 0.0))
    if number < 2 or (one_sided and number < ENOUGH):
        return None
    counts, probability = resamples(number)
    find = enclosing_medians if paired else medians
    lows, highs = find(low, high, counts[:, cluster_of])
    stretch = widening(number, repeats=number < len(readings))
    of_lows = _tails(lows, probability)
    of_highs = of_lows if highs is lows else _tails(highs, probability)
    return _widened(of_lows, of_highs, stretch, number)


def _widened(of_lows: Tails, of_highs: Tails, stretch: float, clusters: int) -> Interval | None:
    """The outer tails of the medians' bounds, widened; of an open end, the inner tail is all that is known."""
    low_open, high_open = of_lows[0] == 0.0, of_highs[1] == math.inf
    if low_open and high_open:
        return None
    low, high = of_highs[0] if low_open else of_lows[0], of_lows[1] if high_open else of_highs[1]
    factor = (high / low) ** stretch
    return Interval(
        low if low_open else low / factor, high if high_open else high * factor, low_open, high_open, clusters
    )


def _tails(values: Floats, probability: Floats) -> Tails:
    """The two quantiles that leave out a tail each, on log LR; between a finite and an open end, the open one.

    Each value stands at the middle of its step, with a line to the next: the medians of few readings are few, and
    without that the coverage jumps with the number of readings (82% for 9).
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    found, upto = ordered[last], np.cumsum(probability[order])[last]
    middles = (upto + np.concatenate(([0.0], upto[:-1]))) / 2
    tail = (1 - LEVEL) / 2
    return _at(tail, middles, found), _at(1 - tail, middles, found)


def _at(level: float, middles: Floats, found: Floats) -> float:
    above = int(np.searchsorted(middles, level))
    if above in (0, len(found)):
        return float(found[max(above - 1, 0)])
    share = (level - middles[above - 1]) / (middles[above] - middles[above - 1])
    return float(found[above - 1] ** (1 - share) * found[above] ** share)
