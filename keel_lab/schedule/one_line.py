"""The compact display: one line that is overwritten on a terminal, or printed now and then to a pipe."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import IO

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.standing import Prior, Standing, unknown

REDRAW_EVERY = 0.5  # seconds, on a terminal
PRINT_EVERY = 10.0  # seconds, to a pipe
_WIPE = "\r\x1b[K"  # to the line's beginning, and clear it


class OneLine:
    """A `Display` of a line; what failed and what the user should know stands above it, a line each."""

    def __init__(self, stream: IO[str], prior: Prior = unknown) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._standing = Standing(prior)
        self._due = 0.0
        self._shown = ""

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """See `Display.begin`."""
        self._standing.begin(trials, reused)
        self._show()

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self._standing.joined(planned)

    def live(self, news: Sequence[Progress]) -> None:
        """See `Display.live`."""
        self._standing.live(news)
        if time.monotonic() >= self._due:
            self._show()

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """See `Display.finished`."""
        self._standing.finished(planned, result)

    def judged(self, planned: PlannedTrial, beside: Verdict) -> None:
        """See `Display.judged`."""
        self._standing.judged(planned, beside)

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """See `Display.retried`."""
        self._standing.retried(planned)

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Display.failed`."""
        self._standing.gave_up(planned)
        self.note(f"{planned.name}: failed, {failure.kind}: {failure.message}")

    def cut(self, planned: PlannedTrial) -> None:
        """See `Display.cut`."""
        self._standing.cut(planned)

    def note(self, text: str) -> None:
        """See `Display.note`."""
        print(f"{_WIPE if self._terminal else ''}{text}", file=self._stream, flush=True)
        self._shown = ""

    def close(self) -> None:
        """See `Display.close`."""
        self._show()
        if self._terminal:
            print(file=self._stream, flush=True)

    def _show(self) -> None:
        self._due = time.monotonic() + (REDRAW_EVERY if self._terminal else PRINT_EVERY)
        last = f"; {self._standing.verdicts[0]}" if self._standing.verdicts else ""
        text = f"{self._standing.headline()}{last}"
        if text == self._shown:
            return
        self._shown = text
        if self._terminal:
            room = shutil.get_terminal_size().columns - 1
            print(f"{_WIPE}{text[:room]}", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)
