"""Which trial comes next. `ramp` and `grid` sweeps know theirs; `search` and `bracket` will ask as they learn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult


class Proposer(Protocol):
    """Asked for trials while there is room, told every result."""

    def ask(self) -> PlannedTrial | None:
        """The next trial, or None if there is none now."""

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """Hears the outcome of a trial it proposed."""


class ListProposer:
    """Every trial of a plan, once, in the plan's order."""

    def __init__(self, trials: Iterable[PlannedTrial]) -> None:
        self._left = deque(trials)

    def ask(self) -> PlannedTrial | None:
        """See `Proposer.ask`."""
        return self._left.popleft() if self._left else None

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """A list learns nothing."""
