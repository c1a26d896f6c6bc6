"""Rules by which published tools call a loss a spike or a divergence: causal, one number in and a yes or no out.

Each is written from its source's description and code with its own parameters. They see finite losses only: their
tools look for NaN and Inf apart, and so does `first_alarm`, for all of them. None waits for the loss to come back, and
none names a mode.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple, Protocol


class Rule(Protocol):
    """A rule that reads one finite loss after the other.

    Attributes:
        wait: samples between the first bad one and the alarm.
    """

    wait: int

    def update(self, loss: float) -> bool:
        """Takes in the next loss, nats, and says whether this is the alarm."""
        ...


class Alarm(NamedTuple):
    """Index of the first bad sample, and whether it was because something was not finite."""

    sample: int
    non_finite: bool


def first_alarm(rule: Rule, losses: Iterable[tuple[float, bool]]) -> Alarm | None:
    """The first alarm of a rule, or the first sample that is not finite, whichever comes first.

    Args:
        rule: new.
        losses: nats, each with whether something of its step (loss, gradient) was not finite.
    """
    for i, (loss, broken) in enumerate(losses):
        if broken:
            return Alarm(i, True)
        if rule.update(loss):
            return Alarm(i - rule.wait, False)
    return None


class NonFiniteOnly:
    """No rule but the search for NaN and Inf.

    Source: Keras's `TerminateOnNaN`, fastai's `TerminateOnNaNCallback`, Lightning's `EarlyStopping(check_finite=True)`.
    """

    wait = 0

    def update(self, loss: float) -> bool:
        """Never."""
        return False


class SigmaSpike:
    """Loss more than 6 standard deviations above the mean of the last 128.

    Source: OLMo-core, `SkipStepOptimizer` (rolling_interval_length 128, sigma_factor 6, from max(20, 128 / 2) losses
    on, unbiased deviation, outliers enter the window too). There it skips a step, on falls and on gradient norms, too;
    a loss that falls is no divergence, so only rises count here.
    """

    wait = 0

    def __init__(self, window: int = 128, sigmas: float = 6.0) -> None:
        self._sigmas = sigmas
        self._from = max(20, window // 2)
        self._window: deque[float] = deque(maxlen=window)

    def update(self, loss: float) -> bool:
        """See `Rule`."""
        n, above = len(self._window), False
        if n + 1 >= self._from:
            mean = math.fsum(self._window) / n
            variance = math.fsum((value - mean) ** 2 for value in self._window) / (n - 1)
            above = loss - mean > self._sigmas * math.sqrt(variance)
        self._window.append(loss)
        return above


class TimesBest:
    """Smoothed loss above 4 times the best smoothed loss so far.

    Source: fastai's `LRFinder` (`stop_div`), with its smoothing: an exponential mean with beta 0.98, its start
    corrected. Lightning's `Tuner.lr_find` has the same (`early_stop_threshold=4.0`). It goes back to L. N. Smith's
    learning rate range test (arXiv 1506.01186).
    """

    wait = 0

    def __init__(self, factor: float = 4.0, beta: float = 0.98) -> None:
        self._factor, self._beta = factor, beta
        self._mean, self._weight = 0.0, 0.0
        self._best = math.inf

    def update(self, loss: float) -> bool:
        """See `Rule`."""
        self._mean = self._beta * self._mean + (1 - self._beta) * loss
        self._weight = self._beta * self._weight + (1 - self._beta)
        smooth = self._mean / self._weight
        self._best = min(self._best, smooth)
        return smooth > self._factor * self._best


class TimesEarlyMax:
    """Loss at least 10 times the largest of the first 100.

    Source: Megatron-LM, `rerun_state_machine.is_unexpectedly_large` (num_samples 100) with SPIKY_LOSS_FACTOR 10, as
    its `--check-for-spiky-loss` calls it.
    """

    wait = 0

    def __init__(self, factor: float = 10.0, early: int = 100) -> None:
        self._factor, self._left = factor, early
        self._largest = 0.0

    def update(self, loss: float) -> bool:
        """See `Rule`."""
        if self._left:
            self._left -= 1
            self._largest = max(self._largest, abs(loss))
            return False
        return abs(loss) >= self._factor * self._largest


class TimesMean:
    """Loss at least twice the mean of the last 100, five times in a row.

    Source: LLM Foundry, `KillLossSpike` (outlier_multiplier 2, window_size 100, patience 4, once the window is full).
    Its second check, half of the window above 10 nats, is another rule and left out. The first of the five is taken as
    the first bad step.
    """

    def __init__(self, factor: float = 2.0, window: int = 100, patience: int = 4) -> None:
        self.wait = patience
        self._factor = factor
        self._window: deque[float] = deque(maxlen=window)
        self._outliers = 0

    def update(self, loss: float) -> bool:
        """See `Rule`."""
        if len(self._window) == self._window.maxlen:
            mean = math.fsum(self._window) / len(self._window)
            self._outliers = self._outliers + 1 if loss >= self._factor * mean else 0
        self._window.append(loss)
        return self._outliers > self.wait


class PageHinkley:
    """Page-Hinkley test for a rise of the mean (E. S. Page, Biometrika 41, 1954).

    Source: river's `drift.PageHinkley`, which is scikit-multiflow's: min_instances 30, delta 0.005, threshold
    (lambda) 50, alpha 0.9999. The threshold has the unit of the series. With `in_sigma` the loss is divided by its own
    noise, so that delta and lambda count standard deviations; without, they are nats.

    Args:
        in_sigma: noise is the median size of the second differences of the first 29 losses (the test is silent until
            then), over 0.6745 * sqrt(6): the standard deviation of independent normal noise; a trend drops out.
    """

    wait = 0

    def __init__(
        self,
        in_sigma: bool = False,
        min_instances: int = 30,
        delta: float = 0.005,
        threshold: float = 50.0,
        alpha: float = 0.9999,
    ) -> None:
        self._in_sigma, self._min_instances = in_sigma, min_instances
        self._delta, self._threshold, self._alpha = delta, threshold, alpha
        self._start: list[float] = []
        self._scale = 1.0
        self._count, self._mean, self._sum = 0, 0.0, 0.0

    def update(self, loss: float) -> bool:
        """See `Rule`."""
        if self._start or not self._count:  # without an alarm before min_instances the start can wait for its scale
            self._start.append(loss)
            if len(self._start) < self._min_instances - 1:  # river counts from 1 and looks after counting
                return False
            if self._in_sigma:
                self._scale = _noise(self._start)
            start, self._start = self._start, []
        else:
            start = [loss]
        for value in start:
            self._add(value / self._scale)
        return self._sum >= self._threshold

    def _add(self, x: float) -> None:
        self._count += 1
        self._mean += (x - self._mean) / self._count
        self._sum = max(0.0, self._alpha * self._sum + (x - self._mean - self._delta))


def _noise(values: list[float]) -> float:
    seconds = [abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return max(median(seconds) / (0.6745 * math.sqrt(6)), 1e-6)  # a constant start has no noise to divide by


RULES: dict[str, Callable[[], Rule]] = {
    "six_sigma": SigmaSpike,
    "four_best": TimesBest,
    "ten_early_max": TimesEarlyMax,
    "two_mean": TimesMean,
    "page_hinkley": PageHinkley,
    "page_hinkley_sigma": lambda: PageHinkley(in_sigma=True),
    "non_finite_only": NonFiniteOnly,
}
"""A new rule of each kind, by the name that tables call it."""
