"""Progress for a terminal: a table of cells that is redrawn in place, with the events scrolling above it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import Cell, PlannedTrial, Role
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.progress import describe, progress
from keel_lab.schedule.standing import LAST, Prior, Standing, unknown
from keel_lab.spec.label import duration_text

if TYPE_CHECKING:
    from rich.table import Table

REDRAW_EVERY = 0.25  # seconds
_FRAME = 6  # lines of the terminal that are not rows


@dataclass
class _Row:
    """A cell: how many of its trials are where, and the news of one that runs."""

    trials: int = 0
    done: int = 0
    failed: int = 0
    running: dict[str, Progress] = field(default_factory=dict)
    verdict: str = ""

    def state(self) -> str:
        """In words."""
        parts = [f"{self.done}/{self.trials} done" if self.trials > 1 else ("done" if self.done else "")]
        parts += [f"{self.failed} failed" if self.trials > 1 else "failed"] if self.failed else []
        parts += [next(iter(self.running.values())).state] if self.running else []
        return ", ".join(part for part in parts if part) or "waiting"


class LiveTable:
    """A `Display` on a terminal."""

    def __init__(self, stream: IO[str], prior: Prior = unknown) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=False, redirect_stdout=False)
        self._standing = Standing(prior)
        self._rows: dict[Cell, _Row] = {}
        self._speed: dict[str, tuple[int, float]] = {}
        self._drawn = 0.0

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """See `Display.begin`."""
        self._standing.begin(trials, reused)
        for planned in trials:
            row = self._rows.setdefault(planned.cell, _Row())
            row.trials += 1
            if planned.trial.id in reused:
                row.done += 1
                if planned.role is Role.TRIAL:
                    row.verdict = describe(reused[planned.trial.id].verdict, planned.trial)
        self._live.start()
        self._draw()

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self._standing.joined(planned)
        self._rows.setdefault(planned.cell, _Row()).trials += 1

    def live(self, news: Sequence[Progress]) -> None:
        """See `Display.live`."""
        self._standing.live(news)
        for item in news:
            if item.trial_id in self._standing.running:
                self._rows[self._standing.trials[item.trial_id].cell].running[item.trial_id] = item
                if item.step:
                    self._speed.setdefault(item.trial_id, (item.step, time.monotonic()))
        self._draw_if_due()

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """See `Display.finished`."""
        words = self._standing.finished(planned, result)
        row = self._end(planned)
        row.done += 1
        if planned.role is Role.TRIAL:
            row.verdict = words
        self._draw_if_due()

    def judged(self, planned: PlannedTrial, beside: Verdict) -> None:
        """See `Display.judged`."""
        words = self._standing.judged(planned, beside)
        self._rows[planned.cell].verdict = words
        self.note(f"{planned.name}: {words}")

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """See `Display.retried`."""
        self._standing.retried(planned)
        self._end(planned)
        self.note(f"{planned.name}: {failure.kind}: {failure.message}; attempt {attempt} follows")

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Display.failed`."""
        self._standing.gave_up(planned)
        self._end(planned).failed += 1
        self.note(f"{planned.name}: failed, {failure.kind}: {failure.message}")

    def cut(self, planned: PlannedTrial) -> None:
        """See `Display.cut`."""
        words = self._standing.cut(planned)
        row = self._end(planned)
        row.done, row.verdict = row.done + 1, words
        self._draw_if_due()

    def note(self, text: str) -> None:
        """See `Display.note`."""
        self._console.print(text, markup=False, highlight=False)
        self._draw()

    def close(self) -> None:
        """See `Display.close`."""
        if self._live.is_started:
            self._draw(whole=True)
        self._live.stop()

    def _end(self, planned: PlannedTrial) -> _Row:
        row = self._rows[planned.cell]
        row.running.pop(planned.trial.id, None)
        self._speed.pop(planned.trial.id, None)
        return row

    def _draw_if_due(self) -> None:
        if time.monotonic() - self._drawn >= REDRAW_EVERY:
            self._draw()

    def _draw(self, *, whole: bool = False) -> None:
        self._drawn = time.monotonic()
        self._live.update(self._table(whole), refresh=True)

    def _table(self, whole: bool) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self._standing.headline(eta=not whole)), title_justify="left", caption_justify="left")
        for name in ("cell", "state", "step", "loss", "verdict", "ETA"):
            table.add_column(name, justify="right" if name in ("step", "loss", "ETA") else "left", overflow="fold")
        rows = sorted(self._rows.items(), key=lambda item: not item[1].running)  # stable: running first
        room = len(rows) if whole else max(1, self._console.height - _FRAME - LAST)
        for cell, row in rows[:room]:
            table.add_row(str(cell), row.state(), *self._numbers(row))
        caption = [f"and {len(rows) - room} more cells"] if len(rows) > room else []
        if not whole:
            caption += self._standing.verdicts
        if caption:
            table.caption = Text("\n".join(caption))
        return table

    def _numbers(self, row: _Row) -> tuple[str, str, str, str]:
        if not row.running:
            return "", "", row.verdict, ""  # a cell's other seeds may still run: their numbers come first
        item = next(iter(row.running.values()))
        steps = self._standing.trials[item.trial_id].trial.schedule.steps
        first, since = self._speed.get(item.trial_id, (0, 0.0))
        gone = item.step - first
        left = steps - item.step
        eta = duration_text(left * (time.monotonic() - since) / gone) if gone > 0 and left >= 0 else ""
        loss = f"{item.loss:.3f}" if item.step else ""
        return progress(item, steps), loss, "", eta
