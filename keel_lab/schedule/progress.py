"""What the terminal shows while a sweep runs: on standard error, so that standard output holds data only."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from keel_lab.detect.agreement import named
from keel_lab.detect.max_lr import max_lr
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.settings import RampSchedule
from keel_lab.trial import Trial


class Display(Protocol):
    """What the runner tells of a running sweep; an implementation may lose nothing but pixels."""

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """The sweep's trials, and the results that were there before, by id."""

    def joined(self, planned: PlannedTrial) -> None:
        """A trial that follows from what others came to; it is not one of those of `begin`."""

    def live(self, news: Sequence[Progress]) -> None:
        """Called several times a second, with the news of running trials, which may be none."""

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """A trial has its result."""

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """An attempt failed; `attempt` is the next one's number."""

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """A trial failed for good."""

    def cut(self, planned: PlannedTrial) -> None:
        """A search's pruner stopped a trial, which needs no more steps."""

    def note(self, text: str) -> None:
        """Something the user should know, as one sentence."""

    def close(self) -> None:
        """Leaves the terminal as it was, below what was shown."""


def open_display(stream: IO[str], *, table: bool | None = None) -> Display:
    """A live table if `stream` is a terminal (or `table` says so), plain lines otherwise."""
    from keel_lab.schedule.live_table import LiveTable
    from keel_lab.schedule.plain_lines import PlainLines

    return LiveTable(stream) if (stream.isatty() if table is None else table) else PlainLines(stream)


def describe(verdict: Verdict, trial: Trial) -> str:
    """A verdict in a few words, with the Max LR if the trial was a ramp: `diverged (collapse) at step 327, ...`."""
    if (end := verdict.evidence.get("curve_ends_at")) is not None:
        return f"{verdict.status} (curve ends at {end})"
    words = named(verdict)
    if verdict.onset_step is not None:
        words += f" at step {verdict.onset_step}"
    if isinstance(trial.schedule, RampSchedule) and verdict.status is not Status.UNDECIDED:
        words += f", Max LR {max_lr(verdict).text(lambda lr: f'{lr:.4g}')}"
    return words


def progress(item: Progress, steps: int) -> str:
    """`54/600`, `600/600 +17 held`, or `starting`."""
    if not item.step:
        return "starting"
    held = f" +{item.step - steps} held" if item.step > steps else ""
    return f"{min(item.step, steps)}/{steps}{held}"


class Pace:
    """How far a sweep is, in steps, and when it will be done at the rate of this run."""

    def __init__(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        self._left = {planned.trial.id: planned.trial.schedule.steps for planned in trials}
        self._at: dict[str, int] = {}
        self._done = 0
        self._began: float | None = None
        for trial_id in reused:
            self._left.pop(trial_id, None)

    def joined(self, planned: PlannedTrial) -> None:
        """One trial more."""
        self._left[planned.trial.id] = planned.trial.schedule.steps

    def news(self, news: Sequence[Progress]) -> None:
        """Counts steps; a resumed trial's first news only say where it stands."""
        for item in news:
            if item.step > 0 and item.trial_id in self._left:
                if self._began is None:  # the first step: what came before were imports, paid once a worker
                    self._began = time.monotonic()
                self._done += max(0, item.step - self._at.get(item.trial_id, item.step))
                self._at[item.trial_id] = item.step

    def ended(self, trial_id: str) -> None:
        """A trial needs no more steps."""
        self._left.pop(trial_id, None)
        self._at.pop(trial_id, None)

    def eta(self) -> float:
        """Seconds until all is done; NaN if unknown."""
        left = sum(max(0, steps - self._at.get(trial_id, 0)) for trial_id, steps in self._left.items())
        if not left:
            return 0.0
        if self._began is None or not self._done:
            return math.nan
        return left * (time.monotonic() - self._began) / self._done
