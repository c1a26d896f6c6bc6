"""Rises of a whole stored curve above its best level: which were regained, and which was not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from keel_lab.detect.best_level import BestLevel, best_levels, winsorised
from keel_lab.detect.change_point import first_departure
from keel_lab.detect.level import MIN_SAMPLES
from keel_lab.detect.noise import Noise, local_noise
from keel_lab.detect.thresholds import Thresholds

_WINDOW = 16  # samples of a level, as in `keel_lab.detect.level`
_LOOK_BACK = 32  # samples before a rise in which its beginning may hide in the noise
_FRESH = 3  # finite samples that must follow one that is not before a level can be regained


@dataclass(frozen=True)
class Samples:
    """What is searched: the steps of a curve up to where it is lost to non-finite values, if it is.

    Attributes:
        y: paired or raw loss, nats; where it is not finite, that of the last finite step.
        broken: whether the step was not finite, or skipped.
        lr: NaN where unknown.
    """

    y: Sequence[float]
    broken: Sequence[bool]
    lr: Sequence[float]


@dataclass(frozen=True)
class Rise:
    """One rise.

    Attributes:
        end: how it ended; `open` if the samples ended first.
        last_good: index of the last sample of the level; -1 if the first step was bad.
        alarm: index at which the rise is beyond doubt.
        change: see `ChangePoint.shape`; `break` for a step that was not finite.
        best: the level that was left.
        sigma: noise there, nats.
    """

    end: Literal["regained", "lost", "open", "blown_up"]
    last_good: int
    alarm: int
    change: str
    best: BestLevel
    sigma: float


@dataclass
class Search:
    """Goes once through the samples; afterwards `regained` and `last` say what it found.

    The statistic is the streaming detector's CUSUM, which over all beginnings is also the likelihood ratio of the best
    offline segment; what differs is what it rests on: noise and levels from both sides of a sample, the regain looked
    up ahead instead of awaited, and the onset fitted.

    Args:
        samples: at least `MIN_SAMPLES` finite ones.
        thresholds: see there.
        unigram_entropy: H1 in nats: up to there and a band a curve that has not learned yet may rise; None if unknown.

    Attributes:
        learned_from: index of the first sample at which the level is below H1 beyond doubt; 0 where H1 is unknown, the
            number of samples if it never is.
    """

    samples: Samples
    thresholds: Thresholds
    unigram_entropy: float | None = None
    learned_from: int = 0
    regained: list[Rise] = field(default_factory=list)
    last: Rise | None = None

    def __post_init__(self) -> None:
        self.noise: Noise = local_noise(self.samples.y, self.thresholds.noise_floor)
        self.x = winsorised(self.samples.y, self.noise, self.thresholds.level_cap_sigma)
        self.best = best_levels(self.x, self.noise, self.thresholds)
        good = [y for y, broken in zip(self.samples.y, self.samples.broken, strict=True) if not broken]
        if self.unigram_entropy is not None:
            self._idle = self.unigram_entropy + self.thresholds.unigram_band
            self.learned_from = self._first_learned(self.unigram_entropy)
        self._ceiling = max(good[:MIN_SAMPLES]) + self.thresholds.blowup_margin
        self._run()

    def level(self, first: int, last: int) -> float:
        """Mean of the winsorised samples from `first` to `last`, nats."""
        return math.fsum(self.x[first : last + 1]) / (last + 1 - first)

    def _first_learned(self, unigram_entropy: float) -> int:
        for i in range(MIN_SAMPLES - 1, len(self.x)):
            n = min(_WINDOW, i + 1)
            error = self.thresholds.learned_confidence * self.noise.error[i] / math.sqrt(n)
            if self.level(i + 1 - n, i) < unigram_entropy - max(self.thresholds.learned_margin, error):
                return i
        return len(self.x)

    def _run(self) -> None:
        cusum, trace, start, blown, i, n = 0.0, 0.0, 0, 0, 0, len(self.x)
        while i < n:
            before, excess = cusum, self._excess(i)
            cusum = max(0.0, cusum + excess - self.thresholds.slack_sigma)
            trace = max(0.0, trace + excess - self.thresholds.onset_slack_sigma)
            start = i + 1 if trace == 0.0 else start
            blown = blown + 1 if self.samples.y[i] > self._ceiling else 0
            broken = self.samples.broken[i]
            if broken or cusum >= self.thresholds.alarm_sigma or blown >= self.thresholds.blowup_samples:
                fresh = broken and before < self.thresholds.noise_freeze_sigma
                rise, at = self._settled(i, None if fresh else start)
                if rise.end != "regained":
                    self.last = rise
                    return
                self.regained.append(rise)
                cusum, trace, start, i = 0.0, 0.0, at + 1, at
            i += 1

    def _reference(self, i: int) -> float:
        reference = self.best[i - 1].reference if i else math.inf
        return max(reference, self._idle) if i < self.learned_from else reference

    def _sigma(self, i: int) -> float:
        return self.noise.sigma[self.best[i - 1].last if i else 0]

    def _excess(self, i: int) -> float:
        cap = self.thresholds.cap_sigma
        if self.samples.broken[i]:
            return cap
        return max(-cap, min(cap, (self.samples.y[i] - self._reference(i)) / self._sigma(i)))

    def _settled(self, alarm: int, start: int | None) -> tuple[Rise, int]:
        """The rise that alarmed, and the sample at which its level is regained, if it is.

        `start` is where the samples began to add up; None if none had before a step that was not finite.
        """
        last_good, shape = (alarm - 1, "break") if start is None else self._left(alarm, start)
        best, sigma, n = self.best[max(alarm - 1, 0)], self._sigma(alarm), len(self.x)
        wanted = self._reference(alarm) + self.thresholds.regain_sigma * sigma
        confirmed = alarm + self.thresholds.confirm_samples
        for i in range(alarm + 1, min(n - _FRESH + 1, confirmed + 1)):
            if self._is_back(i, wanted, last_good):
                return Rise("regained", last_good, alarm, shape, best, sigma), i
        if confirmed < n:
            return Rise("lost", last_good, alarm, shape, best, sigma), confirmed
        if n - 1 - last_good > self.thresholds.confirm_samples:  # the streaming detector counts from the alarm
            return Rise("lost", last_good, alarm, shape, best, sigma), n - 1
        count = self.thresholds.blowup_samples
        blown = n >= count and all(y > self._ceiling for y in self.samples.y[-count:])
        return Rise("blown_up" if blown else "open", last_good, alarm, shape, best, sigma), n - 1

    def _is_back(self, i: int, wanted: float, last_good: int) -> bool:
        if any(self.samples.broken[i : i + _FRESH]):
            return False
        if self.samples.lr[i] < self.thresholds.lr_decay * self.samples.lr[last_good + 1]:  # false where unknown
            return False
        return self.level(i, min(i + _WINDOW, len(self.x)) - 1) <= wanted

    def _left(self, alarm: int, start: int) -> tuple[int, str]:
        """The last sample of the level that was left, and how: looked for as far back as the rise is long."""
        first = max(self.best[max(alarm - 1, 0)].first, start - max(_LOOK_BACK, alarm - start))
        reference, sigma = self._reference(alarm), self._sigma(alarm)
        top = reference + self.thresholds.cap_sigma * sigma
        values = [top if self.samples.broken[i] else min(self.samples.y[i], top) for i in range(first, alarm + 1)]
        found = first_departure(values, sigma, reference)
        return first + found.last_good, found.shape
