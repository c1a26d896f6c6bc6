"""What the terminal shows while a sweep runs: on standard error, so that standard output holds data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Literal, Protocol

from keel_lab.detect.agreement import named
from keel_lab.detect.max_lr import max_lr
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.settings import RampSchedule
from keel_lab.trial import Trial

if TYPE_CHECKING:
    from keel_lab.schedule.standing import Prior

Mode = Literal["auto", "table", "lines", "line"]
MODES: dict[Mode, str] = {
    "auto": "table on a terminal, else lines",
    "table": "a row a cell, redrawn in place",
    "lines": "a line an event",
    "line": "one line in all, overwritten in place",
}


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

    def judged(self, planned: PlannedTrial, beside: Verdict) -> None:
        """Beside its siblings a finished trial has another verdict than by itself."""

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


def open_display(stream: IO[str], mode: Mode = "auto", prior: Prior | None = None) -> Display:
    """The display of that name; `auto` is the table if `stream` is a terminal, the lines otherwise.

    Args:
        stream: where it is shown.
        mode: see `MODES`.
        prior: seconds a step of trials, by id, as measured in earlier runs.
    """
    from keel_lab.schedule.live_table import LiveTable
    from keel_lab.schedule.one_line import OneLine
    from keel_lab.schedule.plain_lines import PlainLines
    from keel_lab.schedule.standing import unknown

    prior = prior or unknown
    if mode == "line":
        return OneLine(stream, prior)
    table = mode == "table" or (mode == "auto" and stream.isatty())
    return LiveTable(stream, prior) if table else PlainLines(stream, prior=prior)


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


def describe_beside(verdict: Verdict, trial: Trial) -> str:
    """The same of a verdict beside siblings: `beside its siblings diverged (degradation) at step 120, ...`."""
    return f"beside its siblings {describe(verdict, trial)}"


def progress(item: Progress, steps: int) -> str:
    """`54/600`, `600/600 +17 held`, or `starting`."""
    if not item.step:
        return "starting"
    held = f" +{item.step - steps} held" if item.step > steps else ""
    return f"{min(item.step, steps)}/{steps}{held}"
