"""Progress for logs and pipes: a line per event, and one of overall progress now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import IO

from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.progress import Pace, describe, progress
from keel_lab.spec.label import duration_text

EVERY = 10.0  # seconds between lines of overall progress


class PlainLines:
    """A `Display` that prints lines to a stream."""

    def __init__(self, stream: IO[str], every: float = EVERY) -> None:
        self._stream = stream
        self._every = every
        self._trials: dict[str, PlannedTrial] = {}
        self._running: dict[str, Progress] = {}
        self._ended: set[str] = set()
        self._pace = Pace((), {})
        self._next = time.monotonic() + every

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """See `Display.begin`."""
        self._trials = {planned.trial.id: planned for planned in trials}
        self._ended = set(reused)
        self._pace = Pace(trials, reused)
        done = f", {len(reused)} already done" if reused else ""
        self._print(f"{len(trials)} trials{done}")

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self._trials[planned.trial.id] = planned
        self._pace.joined(planned)

    def live(self, news: Sequence[Progress]) -> None:
        """See `Display.live`."""
        self._pace.news(news)
        for item in news:
            if item.trial_id in self._trials and item.trial_id not in self._ended:
                if item.trial_id not in self._running:
                    self._print(f"{self._trials[item.trial_id].name}: started")
                self._running[item.trial_id] = item
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self._overall()

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """See `Display.finished`."""
        self._end(planned.trial.id)
        self._print(f"{planned.name}: {describe(result.verdict, planned.trial)} ({result.steps} steps)")

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """See `Display.retried`."""
        self._running.pop(planned.trial.id, None)
        self._print(f"{planned.name}: {failure.kind}: {failure.message}; attempt {attempt} follows")

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Display.failed`."""
        self._end(planned.trial.id)
        self._print(f"{planned.name}: failed, {failure.kind}: {failure.message}")

    def cut(self, planned: PlannedTrial) -> None:
        """See `Display.cut`."""
        self._end(planned.trial.id)
        self._print(f"{planned.name}: cut by the pruner")

    def note(self, text: str) -> None:
        """See `Display.note`."""
        self._print(text)

    def close(self) -> None:
        """Nothing to put back."""

    def _end(self, trial_id: str) -> None:
        self._running.pop(trial_id, None)
        self._ended.add(trial_id)
        self._pace.ended(trial_id)

    def _overall(self) -> None:
        running = ", ".join(
            f"{self._trials[item.trial_id].name} {progress(item, self._trials[item.trial_id].trial.schedule.steps)}"
            f"{f' loss {item.loss:.3f}' if item.step else ''}"
            for item in list(self._running.values())[:4]
        )
        done = f"{len(self._ended)}/{len(self._trials)} done, {len(self._running)} running"
        self._print(f"{done}{f' ({running})' if running else ''}, ETA {duration_text(self._pace.eta())}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
