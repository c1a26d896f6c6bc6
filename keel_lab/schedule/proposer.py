"""Which trial comes next. `ramp` and `grid` sweeps know theirs; a search (`keel_lab.search`) asks as it learns."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from keel_lab.detect.verdict import Status, Verdict
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import forks_of, reference_of
from keel_lab.plan.skipping import family_of, peak_of
from keel_lab.result import TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.information import InformationOrder
from keel_lab.settings import ALONE, RampSchedule, SiblingSettings
from keel_lab.store.points import Point
from keel_lab.trial import Trial


class Proposer(Protocol):
    """Asked for trials while there is room, told every result."""

    def ask(self) -> PlannedTrial | None:
        """The next trial, or None if there is none now; there may be again after the next `tell` or `failed`."""

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """Hears the outcome of a trial it proposed."""

    def failed(self, planned: PlannedTrial) -> None:
        """Hears that a trial it proposed will have no outcome."""

    def stopped(self, planned: PlannedTrial) -> bool:
        """Hears that a trial was stopped on its way; whether that was its own wish, so that it needs no more steps."""

    def hear(self, news: Progress) -> Iterable[str]:
        """Hears of a running trial; the ids of trials that are to be stopped now."""

    def samples(self) -> Sequence[Trial]:
        """Trials that are no part of the plan, for their trainer to check what may be proposed."""

    def points(self) -> Sequence[Point]:
        """Of a search, its points so far."""

    def left(self) -> int:
        """How many trials it has still to propose beyond the sweep's."""


class ListProposer:
    """Every trial of a plan, once; a ramp after its reference, and then the forks it calls for.

    Args:
        trials: the plan.
        siblings: which runs stand beside each ramp.
        skip_above: see `Budget.skip_above_divergence`; then the LRs of a family run one after the other, from the
            lowest, since each decides whether the next one runs.
        by_information: in the order of `InformationOrder`, else in the plan's.
    """

    def __init__(
        self,
        trials: Iterable[PlannedTrial],
        siblings: SiblingSettings = ALONE,
        *,
        skip_above: bool = False,
        by_information: bool = False,
    ) -> None:
        planned = list(trials)
        ordered = by_information and not skip_above
        self._order = InformationOrder(planned if ordered else ())
        self._left = deque(() if ordered else sorted(planned, key=peak_of) if skip_above else planned)
        self._siblings = siblings
        self._skip_above = skip_above
        self._lost: dict[Hashable, float] = {}  # by family, the lowest LR that diverged
        self._below = _next_lower(self._left) if skip_above else {}
        self._open = {one.trial.id for one in planned}  # whose outcome is not known yet
        self._waiting: dict[str, list[PlannedTrial]] = {}

    def ask(self) -> PlannedTrial | None:
        """See `Proposer.ask`."""
        while (planned := self._left.popleft() if self._left else self._order.pop()) is not None:
            if self._lost and peak_of(planned) > self._lost.get(family_of(planned), math.inf):
                self._release(planned)
                continue
            first = self._first(planned)
            if first is None:
                return planned
            self._waiting.setdefault(first, []).append(planned)
        return None

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """See `Proposer.tell`."""
        self._release(planned)
        self._order.tell(planned, verdict)
        if self._skip_above and verdict.status is Status.DIVERGED and peak_of(planned):
            family = family_of(planned)
            self._lost[family] = min(peak_of(planned), self._lost.get(family, math.inf))
        forks = [fork for fork in forks_of(planned, result, self._siblings) if fork.trial.id not in self._open]
        self._open |= {fork.trial.id for fork in forks}
        self._left.extendleft(reversed(forks))  # before the next ramp: their trunk's checkpoints are at hand

    def failed(self, planned: PlannedTrial) -> None:
        """See `Proposer.failed`. A ramp whose reference failed runs without one."""
        self._release(planned)
        self._order.tell(planned, None)

    def stopped(self, planned: PlannedTrial) -> bool:
        """See `Proposer.stopped`: it is left for the next run."""
        return False

    def hear(self, news: Progress) -> Iterable[str]:
        """See `Proposer.hear`: nothing is stopped."""
        return ()

    def samples(self) -> Sequence[Trial]:
        """See `Proposer.samples`: all its trials are planned."""
        return ()

    def points(self) -> Sequence[Point]:
        """See `Proposer.points`."""
        return ()

    def left(self) -> int:
        """See `Proposer.left`."""
        return 0

    def _release(self, planned: PlannedTrial) -> None:
        self._open.discard(planned.trial.id)
        self._left.extendleft(reversed(self._waiting.pop(planned.trial.id, [])))

    def _first(self, planned: PlannedTrial) -> str | None:
        """The id of an open trial that this one has to wait for: a ramp's reference, a grid trial's next lower LR."""
        ramp = planned.role is Role.TRIAL and isinstance(planned.trial.schedule, RampSchedule)
        first = (
            reference_of(planned.trial).id if ramp and self._siblings.reference else self._below.get(planned.trial.id)
        )
        return first if first in self._open else None


def _next_lower(trials: Iterable[PlannedTrial]) -> dict[str, str]:
    """By id of a grid trial the id of the next lower LR of its family; `trials` are in order of their LRs."""
    last: dict[Hashable, str] = {}
    below = {}
    for planned in trials:
        family = family_of(planned)
        if family in last:
            below[planned.trial.id] = last[family]
        last[family] = planned.trial.id
    return below
