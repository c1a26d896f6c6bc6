"""The points of a search: a file each, written when it was asked and again when its end was told.

They are what a search's study is built from, and name its trials: `sweeps/NAME/points/CELL-NUMBER.json`. Points that
were measured again with fresh seeds have a file `fresh-CELL-NUMBER.json` beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from keel_lab.plan.planned import PlannedTrial
from keel_lab.store.document import DamagedError, dump, parse
from keel_lab.store.root import Root

SCHEMA = 1
FOLDER = "points"
_log = logging.getLogger(__name__)


class State(StrEnum):
    """What became of a point. One whose trials failed stays `running`: they are tried again."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"


@dataclass(frozen=True)
class Point:
    """A point of a search.

    Attributes:
        cell: number of the search in its sweep.
        number: of the point in its search, from 0 in the order of asking.
        cell_name: the search in words.
        drawn: what the sampler drew, by parameter name.
        values: what its trials have, by key: rounded, rules in words.
        trials: one a seed and section.
        state: see there.
        told: objective values; None unless complete.
        rungs: loss by tokens, as far as its trials came (mean over seeds).
        constraint: by how much it broke the constraint that nothing diverges; None with one objective.
        facts: what a person should know: `diverged`, `censored`, `why`.
        cut: ids of its trials that the pruner stopped.
        system, study: what Optuna's sampler and pruner noted of the point and of the study.
        fresh: whether its trials measure a point again, with fresh seeds.
        asked_at: Unix seconds.
    """

    cell: int
    number: int
    cell_name: str
    drawn: Mapping[str, Any]
    values: Mapping[str, Any]
    trials: tuple[PlannedTrial, ...]
    state: State = State.RUNNING
    told: tuple[float, ...] | None = None
    rungs: Mapping[int, float] = field(default_factory=dict)
    constraint: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    system: Mapping[str, Any] = field(default_factory=dict)
    study: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False
    asked_at: float = 0.0

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{'fresh-' if self.fresh else ''}{self.cell:03}-{self.number:05}.json"

    @property
    def name(self) -> str:
        """For people: `keel 8 blocks #12`."""
        return f"{self.cell_name} #{self.number}"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return {
            "cell": self.cell,
            "number": self.number,
            "cell_name": self.cell_name,
            "drawn": dict(self.drawn),
            "values": dict(self.values),
            "trials": [planned.to_json() for planned in self.trials],
            "state": str(self.state),
            "told": None if self.told is None else list(self.told),
            "rungs": {str(tokens): loss for tokens, loss in self.rungs.items()},
            "constraint": self.constraint,
            "facts": dict(self.facts),
            "cut": list(self.cut),
            "system": dict(self.system),
            "study": dict(self.study),
            "fresh": self.fresh,
            "asked_at": self.asked_at,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Point:
        """Inverse of `to_json`."""
        return cls(
            **{
                **data,
                "trials": tuple(PlannedTrial.from_json(one) for one in data["trials"]),
                "state": State(data["state"]),
                "told": None if data["told"] is None else tuple(data["told"]),
                "rungs": {int(tokens): loss for tokens, loss in data["rungs"].items()},
                "cut": tuple(data["cut"]),
            }
        )

    def with_end(self, **changes: Any) -> Point:
        """As it is once it was told."""
        return replace(self, **changes)


class PointFiles:
    """The points of one sweep. Every method raises `StorageError` if the storage fails."""

    def __init__(self, root: Root, sweep: str) -> None:
        self._root, self._folder = root, f"sweeps/{sweep}/{FOLDER}"

    def put(self, point: Point) -> None:
        """Stores a point, in place of what was stored of it before."""
        self._root.write(f"{self._folder}/{point.file}", dump(point.to_json(), SCHEMA))

    def all(self) -> list[Point]:
        """Every point: of each search in the order of asking, then those measured again.

        Of a damaged file nothing is known but that its point is lost; it and those asked after it are asked again, so
        they are left out, with a warning. Their trials, which are in storage, cost nothing.
        """
        found: dict[tuple[bool, int, int], Point] = {}
        for name in self._root.list(self._folder):
            if name.endswith(".json"):
                place = f"{self._folder}/{name}"
                try:
                    point = Point.from_json(parse(self._root.read(place), f"{self._root}/{place}", SCHEMA))
                    found[point.fresh, point.cell, point.number] = point
                except (DamagedError, KeyError, TypeError) as error:
                    _log.warning(
                        "%s/%s is damaged (%s); the points from there on are asked again", self._root, place, error
                    )
        ordered = [found[key] for key in sorted(found)]
        whole: dict[int, int] = {}
        for point in ordered:
            if not point.fresh and point.number == whole.get(point.cell, 0):
                whole[point.cell] = point.number + 1
        return [point for point in ordered if point.fresh or point.number < whole.get(point.cell, 0)]
