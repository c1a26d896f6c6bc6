"""Whether a lost level settled at the unigram level: a model that ignores its context, which is what collapse means.

On a ramp it does not stay there: as the LR rises on, a collapsed model is thrown about above H1 as well. So what counts
is a run of samples at H1 at any time since the alarm, not where the loss was when the divergence was confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from keel_lab.detect.thresholds import Thresholds


class Plateau:
    """Counts the samples in a row whose level is at H1; `settled` once there were `collapse_samples` of them.

    Args:
        thresholds: see there.
        unigram_entropy: H1 in nats; None if unknown: then nothing ever settles.
    """

    __slots__ = ("_high", "_low", "_run", "_wanted", "settled")

    def __init__(self, thresholds: Thresholds, unigram_entropy: float | None) -> None:
        h1 = math.nan if unigram_entropy is None else unigram_entropy  # every comparison with it is false
        self._low, self._high = h1 - thresholds.learned_margin, h1 + thresholds.unigram_band
        self._wanted = thresholds.collapse_samples
        self._run = 0
        self.settled = False

    def add(self, level: float) -> None:
        """Takes in the level at the next sample, nats."""
        self._run = self._run + 1 if self._low <= level <= self._high else 0
        if self._run >= self._wanted:
            self.settled = True


def settles(levels: Iterable[float], thresholds: Thresholds, unigram_entropy: float | None) -> bool:
    """Whether these levels, in their order, settle at H1."""
    plateau = Plateau(thresholds, unigram_entropy)
    for level in levels:
        plateau.add(level)
    return plateau.settled
