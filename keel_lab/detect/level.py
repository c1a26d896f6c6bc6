"""The curve's noise, its level now, and the best level it has reached, as an upper confidence bound. O(1) a sample.

Noise: the mean of |second differences|, each cut at three times the mean, since trends cancel and spikes must not
count: E|y_t - 2 y_(t-1) + y_(t-2)| = sqrt(6) sqrt(2 / pi) sigma for Gaussian noise. Autocorrelated noise hides
between neighbours, so the same is taken at lag 4 and the larger counts; their ratio also widens the standard errors
of means.

Level: means of the last 4, 16 and 32 samples, each sample cut to within some sigma of the 4-sample mean. The short one
follows a steep start, the long one settles a flat one. An average with a tail (EMA, span 20) does neither: on a start
that falls and turns within ten samples its lag hid the turn, and `xm_lr1e-1` of the shared curves was missed.

Best: the least mean + z * standard error over all windows and steps, z = max(3, sqrt(2 ln n)). A best level reached
before the noise was known is re-weighed as the noise becomes known, and any is when the noise grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from keel_lab.detect.thresholds import Thresholds

WINDOWS = (4, 16, 32)
MIN_SAMPLES = 8  # six second differences: fewer say nothing of the noise
_RING = 32
_LAG_FROM = 24  # before that a start's curvature would pass for autocorrelation
_SETTLED = 32  # a level reached later rests on a noise that was known
_ABSOLUTE = math.sqrt(6.0) * math.sqrt(2.0 / math.pi)
_MEDIAN = math.sqrt(6.0) * 0.6745
_NOISE_GAIN = 0.03  # a memory of some 60 differences: sigma to about 10%
_CUT = 3.0
_ROOT32 = 32.0**-0.5
_SHORT_Z = 1.3  # after the start, a dip of four correlated samples is likelier than a turn that only they can show


class Baseline:
    """What the next sample is held against.

    Attributes:
        count: samples seen.
        sigma: noise of one sample, nats.
        error_sigma: sigma as it enters standard errors: widened where samples are correlated.
        short, level: mean of the last 4 and the last 16 samples, nats.
        best, best_step, best_error: the best level, when it was reached, and its standard error, nats.
        reference: upper confidence bound of the best level; infinite before the fourth sample.
        onset_reference: the same with z = sqrt(2 ln n), not floored: for dating, not for alarms.
    """

    __slots__ = (
        "_best_count",
        "_best_onset_z",
        "_best_sigma",
        "_best_z",
        "_cap",
        "_confidence",
        "_factor",
        "_floor",
        "_lagged",
        "_last",
        "_near",
        "_onset_z",
        "_previous",
        "_ring",
        "_sum4",
        "_sum16",
        "_sum32",
        "_z",
        "best",
        "best_step",
        "count",
        "error_sigma",
        "level",
        "onset_reference",
        "reference",
        "short",
        "sigma",
    )

    def __init__(self, thresholds: Thresholds, start: Sequence[float]) -> None:
        """Takes the noise from the first `MIN_SAMPLES` samples, which are then to be added in their order."""
        self._cap = thresholds.level_cap_sigma
        self._confidence = thresholds.best_confidence
        self._floor = thresholds.noise_floor * _ABSOLUTE
        differences = [abs(a - 2.0 * b + c) for a, b, c in zip(start, start[1:], start[2:], strict=False)]
        self._near = max(median(differences) * _ABSOLUTE / _MEDIAN, self._floor)
        self._lagged = 0.0
        self.sigma = self.error_sigma = self._near / _ABSOLUTE
        self._ring = [0.0] * _RING
        self._last = self._previous = 0.0
        self._sum4 = self._sum16 = self._sum32 = 0.0
        self._z, self._onset_z = self._confidence, 0.0
        self.count = 0
        self.short = self.level = median(start[:3])
        self.best = self.reference = self.onset_reference = math.inf
        self.best_step = self._best_count = 0
        self._best_sigma = self._factor = self._best_z = self._best_onset_z = 0.0

    @property
    def best_error(self) -> float:
        """Standard error of the best level, nats."""
        return self._best_sigma * self._factor

    @property
    def latest(self) -> float:
        """The larger of the last two samples as they came, nats."""
        return max(self._last, self._previous)

    @property
    def level_error(self) -> float:
        """Standard error of the level now, nats."""
        return self.error_sigma / math.sqrt(min(max(self.count, 1), 16))

    def add(self, y: float, step: int, learn_noise: bool) -> None:
        """Takes in a sample, nats; `learn_noise` is False while the curve is clearly on its way up."""
        count = self.count = self.count + 1
        if learn_noise and count > MIN_SAMPLES:
            self._learn(y, count)
        self._previous, self._last = self._last, y
        reach = self._cap * self.sigma
        short = self.short
        x = short - reach if y < short - reach else short + reach if y > short + reach else y
        if count <= _RING:
            self._ring[count - 1] = x
            self._start(count, step)
        else:
            self._advance(x, count, step)
        sigma = self.error_sigma
        if sigma > self._best_sigma or (count <= 2 * _SETTLED and self._best_count <= _SETTLED):
            self._best_sigma = sigma
            self._bound()

    def _learn(self, y: float, count: int) -> None:
        near = self._near
        difference = y - self._last - self._last + self._previous
        if difference < 0.0:
            difference = -difference
        most = _CUT * near
        near += (_NOISE_GAIN if count > 33 else 1.0 / count) * ((difference if difference < most else most) - near)
        if near < self._floor:
            near = self._floor
        self._near = near
        if count <= _LAG_FROM:
            self.sigma = self.error_sigma = near / _ABSOLUTE
            return
        middle = self._ring[(count - 5) & 31]
        difference = y - middle - middle + self._ring[(count - 9) & 31]
        if difference < 0.0:
            difference = -difference
        lagged = self._lagged or near
        most = _CUT * lagged
        lagged += _NOISE_GAIN * ((difference if difference < most else most) - lagged)
        self._lagged = lagged
        if lagged > near:
            self.sigma = sigma = lagged / _ABSOLUTE
            self.error_sigma = sigma * lagged / near
        else:
            self.sigma = self.error_sigma = near / _ABSOLUTE

    def _start(self, count: int, step: int) -> None:
        seen = self._ring[:count]
        self._onset_z = math.sqrt(2.0 * math.log(count + 1.0))
        self._z = max(self._confidence, self._onset_z)
        for window in WINDOWS:
            n = min(window, count)
            mean = math.fsum(seen[-n:]) / n
            if window == 4:
                self.short = mean
            elif window == 16:
                self.level = mean
            if count >= WINDOWS[0] and mean + self._z * self.error_sigma / math.sqrt(n) < self.reference:
                self._improve(mean, 1.0 / math.sqrt(n), step, self._z)
            if n == count:
                break  # wider windows hold the same samples
        if count < 16:
            self.level = math.fsum(seen) / count
        if count == _RING:
            self._refresh(count)

    def _advance(self, x: float, count: int, step: int) -> None:
        ring = self._ring
        slot = (count - 1) & 31
        self._sum4 = sum4 = self._sum4 + x - ring[slot - 4]
        self._sum16 = sum16 = self._sum16 + x - ring[slot - 16]
        self._sum32 = sum32 = self._sum32 + x - ring[slot]
        ring[slot] = x
        self.short = short = sum4 * 0.25
        self.level = level = sum16 * 0.0625
        margin = self._z * self.error_sigma
        if short + _SHORT_Z * margin * 0.5 < self.reference:
            self._improve(short, 0.5, step, _SHORT_Z * self._z)
        if level + margin * 0.25 < self.reference:
            self._improve(level, 0.25, step, self._z)
        if sum32 * 0.03125 + margin * _ROOT32 < self.reference:
            self._improve(sum32 * 0.03125, _ROOT32, step, self._z)
        if slot == 31:
            self._refresh(count)

    def _refresh(self, count: int) -> None:
        """Once in 32 samples: sums anew, so that rounding (after a blow-up above all) does not last; and z."""
        ring = self._ring
        self._sum4, self._sum16, self._sum32 = math.fsum(ring[28:]), math.fsum(ring[16:]), math.fsum(ring)
        self._onset_z = math.sqrt(2.0 * math.log(count + 1.0))
        self._z = max(self._confidence, self._onset_z)

    def _improve(self, level: float, factor: float, step: int, z: float) -> None:
        self.best, self.best_step, self._factor = level, step, factor
        self._best_count, self._best_sigma = self.count, self.error_sigma
        self._best_z, self._best_onset_z = z, z if self.count > _RING else self._onset_z
        self._bound()

    def _bound(self) -> None:
        error = self._best_sigma * self._factor
        self.reference = self.best + self._best_z * error
        self.onset_reference = self.best + min(self._best_z, self._best_onset_z) * error
