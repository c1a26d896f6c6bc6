"""The best level a stored curve has reached before each of its samples, as an upper confidence bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from keel_lab.detect.level import WINDOWS
from keel_lab.detect.noise import Noise, running_median
from keel_lab.detect.thresholds import Thresholds

_START = 32  # samples; later a dip of four correlated samples is likelier than a turn that only they can show
_SHORT_Z = 1.3


class BestLevel(NamedTuple):
    """The best level up to a sample.

    Attributes:
        reference: its upper confidence bound, nats; infinite before the fourth sample.
        level, error: mean and standard error, nats.
        first, last: the window of samples that it is the mean of.
    """

    reference: float
    level: float
    error: float
    first: int
    last: int


def best_levels(values: Sequence[float], noise: Noise, thresholds: Thresholds) -> list[BestLevel]:
    """The least mean + z standard errors over all windows of 4, 16 and 32 samples that end at or before a sample.

    z is that of `keel_lab.detect.level`; the noise is the whole curve's around each window.

    Args:
        values: winsorised, nats.
        noise: of the same samples.
        thresholds: see there.
    """
    sums = [0.0, *accumulate(values)]
    best = BestLevel(math.inf, math.inf, math.inf, 0, 0)
    found = []
    for i in range(len(values)):
        z = max(thresholds.best_confidence, math.sqrt(2.0 * math.log(i + 2.0)))
        for window in WINDOWS:
            n = min(window, i + 1)
            if n < WINDOWS[0]:
                break
            level, error = (sums[i + 1] - sums[i + 1 - n]) / n, noise.error[i] / math.sqrt(n)
            weight = z * _SHORT_Z if window == WINDOWS[0] and i >= _START else z
            if level + weight * error < best.reference:
                best = BestLevel(level + weight * error, level, error, i + 1 - n, i)
        found.append(best)
    return found


def winsorised(values: Sequence[float], noise: Noise, cap_sigma: float) -> list[float]:
    """The values cut to `cap_sigma` around the median of nine: bad batches come one or two at a time."""
    middles = running_median(values, 4)
    return [
        min(max(value, middle - cap_sigma * sigma), middle + cap_sigma * sigma)
        for value, middle, sigma in zip(values, middles, noise.sigma, strict=True)
    ]
