"""The seam between the runner and a tracking server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from keel_lab.curve import Curve
from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress

CurveSource = Curve | Callable[[], Curve]


class Tracker(Protocol):
    """A mirror of a sweep. No call blocks the runner for long or raises because the server is away."""

    def started(self, planned: PlannedTrial) -> None:
        """A trial began to run."""

    def live(self, news: Sequence[Progress]) -> None:
        """Live metrics of running trials."""

    def record(
        self,
        planned: PlannedTrial,
        result: TrialResult,
        verdict: Verdict,
        curve: CurveSource,
        beside: Verdict | None = None,
    ) -> None:
        """A trial is in storage; delivering it again changes nothing.

        Args:
            planned: the trial.
            result: what became of it.
            verdict: of the trial by itself.
            curve: its curve, or how to read it, which is called only if it is needed.
            beside: its verdict beside its siblings, where that says more.
        """

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """A trial's retries are used up."""

    def summary(self, report: str, figures: Sequence[Path], facts: Mapping[str, float]) -> None:
        """The sweep's report and figures, in the one summary run."""

    def close(self) -> Sequence[str]:
        """Delivers what is left, briefly; returns one sentence per kind of thing that could not be delivered."""

    def where(self) -> str:
        """A sentence that says where a person looks at the sweep; empty if nowhere."""


class NullTracker:
    """Tracks nothing (`--tracking off`)."""

    def started(self, planned: PlannedTrial) -> None:
        """See `Tracker`."""

    def live(self, news: Sequence[Progress]) -> None:
        """See `Tracker`."""

    def record(
        self,
        planned: PlannedTrial,
        result: TrialResult,
        verdict: Verdict,
        curve: CurveSource,
        beside: Verdict | None = None,
    ) -> None:
        """See `Tracker`."""

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Tracker`."""

    def summary(self, report: str, figures: Sequence[Path], facts: Mapping[str, float]) -> None:
        """See `Tracker`."""

    def close(self) -> Sequence[str]:
        """See `Tracker`."""
        return ()

    def where(self) -> str:
        """See `Tracker`."""
        return ""
