"""Which trial comes next. `ramp` and `grid` sweeps know theirs; `search` and `bracket` will ask as they learn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import forks_of, reference_of
from keel_lab.result import TrialResult
from keel_lab.settings import ALONE, RampSchedule, SiblingSettings


class Proposer(Protocol):
    """Asked for trials while there is room, told every result."""

    def ask(self) -> PlannedTrial | None:
        """The next trial, or None if there is none now; there may be again after the next `tell` or `failed`."""

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """Hears the outcome of a trial it proposed."""

    def failed(self, planned: PlannedTrial) -> None:
        """Hears that a trial it proposed will have no outcome."""


class ListProposer:
    """Every trial of a plan, once, in the plan's order; a ramp after its reference, and then the forks it calls for.

    Args:
        trials: the plan.
        siblings: which runs stand beside each ramp.
    """

    def __init__(self, trials: Iterable[PlannedTrial], siblings: SiblingSettings = ALONE) -> None:
        self._left = deque(trials)
        self._siblings = siblings
        self._open = {planned.trial.id for planned in self._left}  # whose outcome is not known yet
        self._waiting: dict[str, list[PlannedTrial]] = {}

    def ask(self) -> PlannedTrial | None:
        """See `Proposer.ask`."""
        while self._left:
            planned = self._left.popleft()
            reference = self._reference(planned)
            if reference is None or reference not in self._open:
                return planned
            self._waiting.setdefault(reference, []).append(planned)
        return None

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """See `Proposer.tell`."""
        self._release(planned)
        forks = [fork for fork in forks_of(planned, result, self._siblings) if fork.trial.id not in self._open]
        self._open |= {fork.trial.id for fork in forks}
        self._left.extendleft(reversed(forks))  # before the next ramp: their trunk's checkpoints are at hand

    def failed(self, planned: PlannedTrial) -> None:
        """See `Proposer.failed`. A ramp whose reference failed runs without one."""
        self._release(planned)

    def _release(self, planned: PlannedTrial) -> None:
        self._open.discard(planned.trial.id)
        self._left.extendleft(reversed(self._waiting.pop(planned.trial.id, [])))

    def _reference(self, planned: PlannedTrial) -> str | None:
        ramp = planned.role is Role.TRIAL and isinstance(planned.trial.schedule, RampSchedule)
        return reference_of(planned.trial).id if ramp and self._siblings.reference else None
