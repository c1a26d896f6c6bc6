"""The rise above the best level: two CUSUMs, for the alarm and for the onset, and the smoothed excess."""

from __future__ import annotations

import math
from typing import NamedTuple

from keel_lab.detect.thresholds import Thresholds


class Onset(NamedTuple):
    """The last good and the first bad step, with the LRs that their updates used (NaN if unknown)."""

    good_step: int | None
    good_lr: float
    bad_step: int
    bad_lr: float


class Excursion:
    """CUSUM <- max(0, CUSUM + excess - slack), the excess in sigma and cut at +-cap (Page, 1954).

    The first CUSUM has `slack_sigma` and raises the alarm. It leaves zero late in a slow rise, so the second one, with
    `onset_slack_sigma`, dates the onset by its last zero. A jump takes the first CUSUM to the alarm about as fast as
    the cap allows: it began at its first sample above half the cap, and the noise that happened to precede it does
    not count.

    Attributes:
        cusum: of the first.
        smooth: EMA of the excess since the first left zero: says whether the level is regained.
    """

    __slots__ = (
        "_cap",
        "_gain",
        "_half_cap",
        "_jump",
        "_jump_samples",
        "_lr",
        "_onset_slack",
        "_rise",
        "_samples",
        "_slack",
        "_step",
        "_trace",
        "cusum",
        "smooth",
    )

    def __init__(self, thresholds: Thresholds) -> None:
        self._cap, self._slack = thresholds.cap_sigma, thresholds.slack_sigma
        self._half_cap = 0.5 * thresholds.cap_sigma
        self._onset_slack = thresholds.onset_slack_sigma
        self._gain = 2.0 / (thresholds.span_samples + 1.0)
        self._jump_samples = 1.2 * thresholds.alarm_sigma / max(self._cap - self._slack, 0.1)
        self.cusum = self.smooth = self._trace = 0.0
        self._samples = 0
        self._step: int | None = None
        self._lr = math.nan
        self._jump = self._rise = Onset(None, math.nan, 0, math.nan)

    @property
    def onset(self) -> Onset:
        """Where the rise that goes on now began."""
        return self._jump if 0 < self._samples <= self._jump_samples else self._rise

    def add(self, y: float, sigma: float, reference: float, onset_reference: float, step: int, lr: float) -> float:
        """Takes in a sample, all in nats, and returns the CUSUM."""
        cap = self._cap
        excess = (y - onset_reference) / sigma
        if excess > cap:
            excess = cap
        trace = self._trace + excess - self._onset_slack
        if trace <= 0.0:
            trace = 0.0
        elif self._trace == 0.0:
            self._rise = Onset(self._step, self._lr, step, lr)
        self._trace = trace
        excess = (y - reference) / sigma
        if excess > cap:
            excess = cap
        elif excess < -cap:
            excess = -cap
        cusum = self.cusum + excess - self._slack
        if cusum <= 0.0:
            cusum = self.smooth = 0.0
            self._samples = 0
        else:
            if self._samples:
                self._samples += 1
            elif excess > self._half_cap:
                self._samples = 1
                self._jump = Onset(self._step, self._lr, step, lr)
            self.smooth += self._gain * (excess - self.smooth)
        self.cusum = cusum
        self._step, self._lr = step, lr
        return cusum

    def add_worst(self, step: int, lr: float, anew: bool) -> None:
        """A step without a finite loss: the largest excess there is. `anew` forgets whatever rise there was."""
        if anew:
            self.cusum = self.smooth = self._trace = 0.0
            self._samples = 0
        if self._trace == 0.0:
            self._rise = Onset(self._step, self._lr, step, lr)
        if self._samples == 0:
            self._jump = Onset(self._step, self._lr, step, lr)
        self._samples += 1
        self._trace += self._cap
        self.cusum += max(0.0, self._cap - self._slack)
        self.smooth += self._gain * (self._cap - self.smooth)
        self._step, self._lr = step, lr

    def clear(self) -> None:
        """The level is regained: nothing is held against the curve any more."""
        self.cusum = self.smooth = self._trace = 0.0
        self._samples = 0
