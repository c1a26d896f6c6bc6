"""The mean of a metric over the seeds of a cell, with its 90% interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from analysis.intervals import LEVEL


@dataclass(frozen=True)
class Mean:
    """A mean over seeds.

    Attributes:
        value: mean over data seeds of the mean over the init seeds of each: the plain mean where all have as many.
        low, high: ends of the interval; None for a single data seed, where nothing tells how far they scatter.
        n: values it is the mean of.
        clusters: distinct data seeds.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int


def mean_in_logs(values: Sequence[float], data_seeds: Sequence[int]) -> Mean | None:
    """The geometric mean of positive values, and its interval, from those of their logarithms."""
    found = mean([math.log(value) for value in values], data_seeds)
    if found is None or found.low is None or found.high is None:
        return None if found is None else replace(found, value=math.exp(found.value))
    return replace(found, value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high))


def mean(values: Sequence[float], data_seeds: Sequence[int]) -> Mean | None:
    """The mean and Student's t interval over data seeds (runs that share their data are no independent repeats).

    Args:
        values: finite, one a seed.
        data_seeds: of each value.

    Returns:
        None without values.
    """
    groups: dict[int, list[float]] = {}
    for value, seed in zip(values, data_seeds, strict=True):
        groups.setdefault(seed, []).append(value)
    means = [fmean(group) for group in groups.values()]
    if not means:
        return None
    middle, number = fmean(means), len(means)
    if number == 1:
        return Mean(middle, None, None, len(values), 1)
    from scipy.special import stdtrit

    reach = float(stdtrit(number - 1, (1 + LEVEL) / 2)) * stdev(means) / math.sqrt(number)
    return Mean(middle, middle - reach, middle + reach, len(values), number)
