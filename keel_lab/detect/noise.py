"""The noise of a whole stored curve, sample by sample; unlike the streaming estimate it looks ahead as well as back."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

_HALF = 32  # samples to either side: a median of 65 differences knows sigma to some 15%
_LAG = 4
_LAG_FROM = 24  # shorter curves are all start, whose curvature would pass for autocorrelation
_MEDIAN = math.sqrt(6.0) * 0.6745  # median |second difference| of Gaussian noise, in sigma


class Noise(NamedTuple):
    """By sample, nats: its standard deviation, and that as it enters the standard error of a mean."""

    sigma: list[float]
    error: list[float]


def local_noise(values: Sequence[float], floor: float) -> Noise:
    """Noise from running medians of |second differences|, which neither trends nor outliers move.

    Autocorrelated noise hides between neighbours: the same is taken at lag 4, the larger counts, and their ratio widens
    the standard errors of means, as in `keel_lab.detect.level`.

    Args:
        values: at least 3, finite, nats.
        floor: least sigma, nats.
    """
    near = _scale(values, 1, floor)
    if len(values) <= _LAG_FROM:
        return Noise(near, list(near))
    far = _scale(values, _LAG, floor)
    sigma = [max(a, b) for a, b in zip(near, far, strict=True)]
    return Noise(sigma, [s * max(1.0, b / a) for s, a, b in zip(sigma, near, far, strict=True)])


def _scale(values: Sequence[float], lag: int, floor: float) -> list[float]:
    ahead, middle = values[2 * lag :], values[lag:]
    differences = [abs(c - b - b + a) for a, b, c in zip(values, middle, ahead, strict=False)]
    medians = running_median(differences, _HALF)
    last = len(medians) - 1
    return [max(floor, medians[min(max(i - lag, 0), last)] / _MEDIAN) for i in range(len(values))]


def running_median(values: Sequence[float], half: int) -> list[float]:
    """Medians of `half` values to either side and the one between; fewer at the ends."""
    window = sorted(values[:half])
    found = []
    for i in range(len(values)):
        if i + half < len(values):
            insort(window, values[i + half])
        if i - half - 1 >= 0:
            del window[bisect_left(window, values[i - half - 1])]
        middle = len(window) // 2
        found.append(window[middle] if len(window) % 2 else 0.5 * (window[middle - 1] + window[middle]))
    return found
