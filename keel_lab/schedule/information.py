"""The order in which trials tell most, so that a sweep that is stopped early has answered as much as it could.

Every cell gets its first seed before any gets its second, those at the ends of an architecture's axes first. A ramp
comes right after its reference. The LRs of a grid's family are bisected: between the highest that held and the lowest
that diverged the next one is asked where it halves what is not known, and the rest is filled in, from the boundary
outwards, when no boundary is left to find.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.skipping import family_of, peak_of
from keel_lab.settings import GridSchedule

Priority = tuple[bool, int, int, int]


@dataclass
class _Unit:
    """A grid's family by rising LR, or a ramp with its reference.

    Attributes:
        good, bad: places of the highest LR that held and of the lowest that diverged, as far as is known.
        out: places that were asked and not told yet.
    """

    trials: list[PlannedTrial]
    seed: int = 0
    place: int = 0
    good: int = -1
    bad: int = 0
    left: set[int] = field(default_factory=set)
    out: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """All trials are there."""
        self.trials.sort(key=peak_of)  # stable: a ramp's are of LR 0 here
        self.left, self.bad = set(range(len(self.trials))), len(self.trials)

    @property
    def grid(self) -> bool:
        return isinstance(self.trials[0].trial.schedule, GridSchedule)

    @property
    def within(self) -> list[int]:
        """Places not asked yet between what held and what diverged."""
        return [at for at in sorted(self.left) if self.good < at < self.bad]

    def priority(self) -> Priority:
        """Small is soon: boundaries before fillings, first seeds before second ones.

        Boundaries are looked for in all families at once; then one is filled after the other, to be whole early.
        """
        filling = not self.within
        started = len(self.trials) - len(self.left) if self.grid and not filling else 0
        return filling, self.seed, started, self.place

    def take(self) -> PlannedTrial:
        """The trial that tells most of it now."""
        at = self._best() if self.grid else min(self.left)
        self.left.discard(at)
        self.out.add(at)
        return self.trials[at]

    def _best(self) -> int:
        within = self.within
        if not within:
            return min(self.left, key=lambda at: (abs(at - self.good), at))
        marks = {self.good, self.bad, *self.out}
        return max(within, key=lambda at: (min(abs(at - mark) for mark in marks), -at))

    def tell(self, at: int, verdict: Verdict | None) -> None:
        """What became of the trial at a place; a run that never learned says nothing of the boundary."""
        self.out.discard(at)
        if verdict is None or verdict.mode is Mode.STAGNATION:
            return
        if verdict.status is Status.DIVERGED:
            self.bad = min(self.bad, at)
        else:
            self.good = max(self.good, at)


class InformationOrder:
    """Hands out each trial of a plan once.

    Args:
        trials: the plan, in its own order, which decides where nothing else does.
    """

    def __init__(self, trials: Iterable[PlannedTrial]) -> None:
        units: dict[Hashable, _Unit] = {}
        for planned in trials:
            units.setdefault(_unit_of(planned), _Unit([])).trials.append(planned)
        self._units = list(units.values())
        self._at: dict[str, tuple[int, int]] = {}
        for number, unit in enumerate(self._units):
            unit.begin()
            self._at |= {planned.trial.id: (number, place) for place, planned in enumerate(unit.trials)}
        self._place()
        self._heap = [(unit.priority(), number) for number, unit in enumerate(self._units)]
        heapq.heapify(self._heap)

    def pop(self) -> PlannedTrial | None:
        """The next trial; None if all were handed out."""
        while self._heap:
            priority, number = heapq.heappop(self._heap)
            unit = self._units[number]
            if unit.left and priority == unit.priority():  # else it was put in again with another one
                planned = unit.take()
                self._push(number)
                return planned
        return None

    def tell(self, planned: PlannedTrial, verdict: Verdict | None) -> None:
        """Hears of a trial that was handed out; None if it has no verdict."""
        if planned.trial.id in self._at:
            number, place = self._at[planned.trial.id]
            self._units[number].tell(place, verdict)
            self._push(number)

    def _push(self, number: int) -> None:
        if self._units[number].left:
            heapq.heappush(self._heap, (self._units[number].priority(), number))

    def _place(self) -> None:
        """Numbers the seeds of each cell, and within an architecture the cells from the ends inwards."""
        seeds: dict[Hashable, int] = {}
        rows: dict[Hashable, list[_Unit]] = {}
        for unit in self._units:
            cell = unit.trials[0].cell
            unit.seed = seeds.get(cell, 0)
            seeds[cell] = unit.seed + 1
            rows.setdefault((cell.architecture, unit.seed), []).append(unit)
        for row in rows.values():
            for place, at in enumerate(ends_first(len(row))):
                row[at].place = place


def ends_first(count: int) -> list[int]:
    """0 to `count` - 1 from the ends inwards: 0, 4, 2, 1, 3."""
    order = [0, count - 1][: max(0, count)] if count != 1 else [0]
    gaps = deque([(0, count - 1)])
    while gaps:
        low, high = gaps.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return order


def _unit_of(planned: PlannedTrial) -> Hashable:
    if isinstance(planned.trial.schedule, GridSchedule):
        return family_of(planned)
    return planned.cell, planned.trial.init_seed, planned.trial.data_seed
