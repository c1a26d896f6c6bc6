"""Progress for logs and pipes: a line per event, and one of overall progress now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import IO

from keel_lab.counted import counted
from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.progress import progress
from keel_lab.schedule.standing import Prior, Standing, unknown

EVERY = 10.0  # seconds between lines of overall progress


class PlainLines:
    """A `Display` that prints lines to a stream."""

    def __init__(self, stream: IO[str], every: float = EVERY, prior: Prior = unknown) -> None:
        self._stream = stream
        self._every = every
        self._standing = Standing(prior)
        self._next = time.monotonic() + every

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """See `Display.begin`."""
        self._standing.begin(trials, reused)
        done = f", {len(reused)} already done" if reused else ""
        if trials:  # a search asks for its own as it goes
            self._print(f"{counted(len(trials), 'trial')}{done}")

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self._standing.joined(planned)

    def live(self, news: Sequence[Progress]) -> None:
        """See `Display.live`."""
        for planned in self._standing.live(news):
            self._print(f"{planned.name}: started")
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self._overall()

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """See `Display.finished`."""
        self._print(f"{planned.name}: {self._standing.finished(planned, result)} ({result.steps} steps)")

    def judged(self, planned: PlannedTrial, beside: Verdict) -> None:
        """See `Display.judged`."""
        self._print(f"{planned.name}: {self._standing.judged(planned, beside)}")

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """See `Display.retried`."""
        self._standing.retried(planned)
        self._print(f"{planned.name}: {failure.kind}: {failure.message}; attempt {attempt} follows")

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Display.failed`."""
        self._standing.gave_up(planned)
        self._print(f"{planned.name}: failed, {failure.kind}: {failure.message}")

    def cut(self, planned: PlannedTrial) -> None:
        """See `Display.cut`."""
        self._print(f"{planned.name}: {self._standing.cut(planned)}")

    def note(self, text: str) -> None:
        """See `Display.note`."""
        self._print(text)

    def close(self) -> None:
        """Nothing to put back."""

    def _overall(self) -> None:
        running = ", ".join(
            f"{planned.name} {progress(item, planned.trial.schedule.steps)}"
            f"{f' loss {item.loss:.3f}' if item.step else ''}"
            for item in list(self._standing.running.values())[:4]
            if (planned := self._standing.trials[item.trial_id])
        )
        self._print(f"{self._standing.headline()}{f' ({running})' if running else ''}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
