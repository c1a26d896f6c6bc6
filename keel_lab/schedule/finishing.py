"""The end of a run of a sweep: its report, and everything that is left to say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from keel_lab.counted import counted
from keel_lab.schedule.summary import RunSummary
from keel_lab.search import best
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.track.tracker import NullTracker, Tracker

SIGNALLED = 128  # exit codes above it name a signal


@dataclass(frozen=True)
class Reporting:
    """What `analysis` brings in.

    Attributes:
        table: the report that is printed when the sweep ends.
        markdown: the same for the tracker's summary.
        figures: draws the sweep's figures and returns their files.
    """

    table: Callable[[], str]
    markdown: Callable[[], str]
    figures: Callable[[], Sequence[Path]]


def say(text: str) -> None:
    """A line for the person at the terminal: to standard error, since standard output holds data."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def finish(
    summary: RunSummary, sweep: StoredSweep, tracker: Tracker, reporting: Reporting, show: Callable[[str], None]
) -> None:
    """Shows the report and hands it to the tracker; what only a mirror lacks becomes a sentence."""
    interrupted = summary.exit_code > SIGNALLED
    if (summary.completed or summary.diverged) and not interrupted:  # who presses Ctrl-C wants the prompt
        show(reporting.table())
        figures = reporting.figures()
        for figure in figures:
            say(f"figure: {figure}")
        if not isinstance(tracker, NullTracker):  # a report of thousands of cells takes seconds
            facts = {"completed": summary.completed, "diverged": summary.diverged, "failed": summary.failed}
            numbers = {name: float(value) for name, value in facts.items()} | best.facts(sweep)
            tracker.summary(reporting.markdown(), figures, numbers)
    undelivered = tracker.close()
    for sentence in (*summary.warnings, *undelivered):
        say(sentence)
    where = tracker.where()
    if where:
        say(where)
    for name, failure in summary.failures.items():
        say(f"failed: {name}: {failure.kind}: {failure.message}")
    for name in list(summary.failures)[:1]:
        say(f"its traceback, and what it logged and printed: keel-lab logs {sweep.name}/{name}")
    if summary.skipped and "search" in sweep.spec:
        say(f"{summary.skipped} cut by the pruner: not trained to their end")
    elif summary.skipped:
        say(f"{summary.skipped} skipped: a lower LR diverged (budget.skip_above_divergence); missing, not diverged")
    if summary.left or summary.failures:
        why = f" ({summary.reason})" if summary.reason else ""
        left = summary.left + summary.failed
        say(f"{counted(left, 'trial')} left{why}; go on with: keel-lab resume {sweep.name}")
