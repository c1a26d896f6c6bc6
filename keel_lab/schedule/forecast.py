"""When a sweep will be done, and how sure that is: refined by every step and every trial that ends.

Work is counted in seconds of one trial at a time. What a planned step of a shape costs is what trials of that shape
took in this run, early ends included; before one has ended, what a running one shows; before that, what storage
knows of earlier runs; and at last the mean of the others. How much of it is done a second, all workers together, then
gives the time left.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.spec.label import duration_text
from keel_lab.trial import Trial

ENOUGH = 3  # trials that have ended, from which on their spread is believed
SPREAD = 0.5  # relative, of one trial's time, before that; and of a shape that was never seen
NORMAL_90 = 1.645


@dataclass(frozen=True)
class Eta:
    """Seconds until all is done, with a 90% interval; NaN where nothing is known."""

    seconds: float
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        """`12 min (9 min to 16 min)`, or `12 min` where the interval reads the same."""
        text, low, high = (duration_text(value) for value in (self.seconds, self.low, self.high))
        return text if low == high or "?" in (text, low, high) else f"{text} ({low} to {high})"


@dataclass
class _Shape:
    """Trials that cost the same a step: what is left of them, and what those cost that ended."""

    left: int = 0  # trials
    steps_left: int = 0
    seconds: float = 0.0
    steps: int = 0  # planned ones, of those that ended
    prior: float = math.nan  # seconds a step
    ended: int = 0  # trials, and the sums of their seconds a planned step and of its square
    total: float = 0.0
    squares: float = 0.0

    def took(self, seconds: float, steps: int) -> None:
        """A trial of so many planned steps ended after so long."""
        self.seconds += seconds
        self.steps += steps
        self.ended += 1
        self.total += seconds / steps
        self.squares += (seconds / steps) ** 2

    @property
    def spread(self) -> float:
        """Mean squared deviation of what a trial takes, relative to the mean."""
        return max(0.0, self.ended * self.squares / self.total**2 - 1.0)


class Forecast:
    """Counts the work of one run of a sweep.

    Args:
        trials: the plan.
        done: ids of those that have their result.
        prior: by id, seconds a step as measured in earlier runs, where they were.
    """

    def __init__(
        self, trials: Iterable[PlannedTrial] = (), done: Collection[str] = (), prior: Mapping[str, float] | None = None
    ) -> None:
        self._shapes: dict[Hashable, _Shape] = {}
        self._open: dict[str, Trial] = {}
        self._running: dict[str, tuple[int, float, int]] = {}  # first step seen and when, last step
        self._began: float | None = None
        self._prior = prior or {}
        for planned in trials:
            if planned.trial.id not in done:
                self.joined(planned)

    def joined(self, planned: PlannedTrial) -> None:
        """One trial more."""
        trial = planned.trial
        shape = self._shapes.setdefault(_shape_of(trial), _Shape())
        shape.left += 1
        shape.steps_left += trial.schedule.steps
        shape.prior = self._prior.get(trial.id, shape.prior)
        self._open[trial.id] = trial

    def news(self, news: Iterable[Progress]) -> None:
        """Follows running trials; a resumed trial's first news only say where it stands."""
        now = time.monotonic()
        for item in news:
            if item.trial_id in self._open and item.step > 0:
                if self._began is None:  # the first step: what came before were imports, paid once a worker
                    self._began = now
                first, since, _ = self._running.get(item.trial_id, (item.step, now, item.step))
                self._running[item.trial_id] = (first, since, item.step)

    def retried(self, trial_id: str) -> None:
        """A trial's attempt is over; it will run on, or again."""
        self._running.pop(trial_id, None)

    def ended(self, trial_id: str, result: TrialResult | None = None) -> None:
        """A trial needs no more steps; with a result it says what trials of its shape cost."""
        self._running.pop(trial_id, None)
        trial = self._open.pop(trial_id, None)
        if trial is None:
            return
        shape = self._shapes[_shape_of(trial)]
        shape.left -= 1
        shape.steps_left -= trial.schedule.steps
        seconds = _seconds(result) if result is not None else math.nan
        if seconds > 0:
            if self._began is None:
                self._began = time.monotonic() - seconds
            shape.took(seconds, trial.schedule.steps)

    def eta(self) -> Eta:
        """When all will be done, at the rate of this run."""
        if not self._open:
            return Eta(0.0, 0.0, 0.0)
        costs = self._costs()
        known = [cost for cost in costs.values() if cost == cost]
        if not known:
            return Eta(math.nan)
        usual = statistics.fmean(known)
        cost = {key: usual if value != value else value for key, value in costs.items()}
        ahead = {trial_id: self._ahead(trial_id, cost) for trial_id in self._running}
        behind = sum(done for _, done in ahead.values())
        work = sum(shape.steps_left * cost[key] for key, shape in self._shapes.items()) - behind
        done = sum(shape.seconds for shape in self._shapes.values()) + behind
        longest = max((left for left, _ in ahead.values()), default=0.0)
        seconds = max(work / self._parallel(done), longest)
        spread = NORMAL_90 * self._uncertainty(cost)
        return Eta(seconds, seconds * math.exp(-spread), seconds * math.exp(spread))

    def _parallel(self, done: float) -> float:
        """Seconds of work that are done in a second."""
        if self._began is None:
            return 1.0
        elapsed = time.monotonic() - self._began
        return done / elapsed if done > 0 and elapsed > 0 else float(max(1, len(self._running)))

    def _ahead(self, trial_id: str, cost: Mapping[Hashable, float]) -> tuple[float, float]:
        """Seconds that a running trial has left, and that it has behind it in this run."""
        trial, (first, _, last) = self._open[trial_id], self._running[trial_id]
        step = cost[_shape_of(trial)]
        return max(0, trial.schedule.steps - last) * step, max(0, last - first) * step

    def _costs(self) -> dict[Hashable, float]:
        """Seconds a planned step, by shape; NaN for one that nothing is known of."""
        shown: dict[Hashable, list[float]] = {}
        now = time.monotonic()
        for trial_id, (first, since, last) in self._running.items():
            if last > first:
                shown.setdefault(_shape_of(self._open[trial_id]), []).append((now - since) / (last - first))
        return {
            key: shape.seconds / shape.steps
            if shape.steps
            else statistics.fmean(shown[key])
            if key in shown
            else shape.prior
            for key, shape in self._shapes.items()
        }

    def _uncertainty(self, cost: Mapping[Hashable, float]) -> float:
        """Relative standard error of the work left: of the mean cost, and of the sum of single trials."""
        left = {key: shape.steps_left * cost[key] for key, shape in self._shapes.items() if shape.left}
        whole = sum(left.values())
        if not whole:
            return 0.0
        repeated = [shape for shape in self._shapes.values() if shape.ended > 1]
        seen, ended = sum(one.ended for one in repeated), sum(one.ended for one in self._shapes.values())
        spread = math.sqrt(sum(one.ended * one.spread for one in repeated) / seen) if seen >= ENOUGH else SPREAD
        unseen = sum(work for key, work in left.items() if not self._shapes[key].ended) / whole
        trials = sum(shape.left for shape in self._shapes.values())
        error = spread * math.sqrt(1.0 / max(1, ended) + 1.0 / max(1, trials))
        return math.hypot((1.0 - unseen) * error, unseen * SPREAD)


def _shape_of(trial: Trial) -> Hashable:
    return trial.trainer, trial.architecture, trial.blocks, trial.model, trial.train, trial.schedule.kind


def _seconds(result: TrialResult) -> float:
    """How long a trial took, all attempts together; NaN if it does not say."""
    execution = result.execution
    each = execution.get("seconds_per_step")
    whole = execution.get("finished_at", math.nan) - execution.get("started_at", math.nan)
    if execution.get("attempt", 1) != 1 or not whole > 0:  # a resumed one, or a clock that was set
        return each * result.steps if each else math.nan
    return float(whole)
