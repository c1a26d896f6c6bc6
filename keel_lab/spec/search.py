"""Protocol `search`, as read from a sweep file: what is searched, for which objectives, by which sampler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from keel_lab.spec.domain import Domain

Direction = Literal["minimize", "maximize"]
DIRECTIONS: tuple[Direction, ...] = ("minimize", "maximize")
OBJECTIVES: Mapping[str, Direction] = {  # those that we compute ourselves, or whose direction is known
    "val_loss": "minimize",
    "final_loss": "minimize",
    "max_lr": "maximize",
    "tokens_to_loss": "minimize",
    "cost": "minimize",
}
CELL, ALL = "cell", "all"


@dataclass(frozen=True)
class Parameter:
    """A key that is searched.

    Attributes:
        key: `options.alpha`, `schedule.lr`, ...
        name: short and distinct within the search: `alpha`, `lr`, or `keel.alpha` if it is one architecture's.
        domain: its values.
        architecture: the only one that it holds for; None for all that use it.
    """

    key: str
    name: str
    domain: Domain
    architecture: str | None = None


@dataclass(frozen=True)
class Objective:
    """What is to become small or large.

    Attributes:
        name: of `OBJECTIVES`, or a metric that trials report.
        target: of `tokens_to_loss`, the loss in nats.
    """

    name: str
    direction: Direction
    target: float | None = None

    @property
    def needs(self) -> Literal["ramp", "schedule"]:
        """The section whose trials it is read from."""
        return "ramp" if self.name == "max_lr" else "schedule"


@dataclass(frozen=True)
class Chosen:
    """A sampler or pruner by Optuna's name, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As in a sweep file."""
        return {"name": self.name, **self.options}


@dataclass(frozen=True)
class Remeasure:
    """The best points are trained again with fresh seeds: how many points, how many seeds each."""

    best: int = 3
    seeds: int = 3


@dataclass(frozen=True)
class WarmStart:
    """Points that are asked first.

    Attributes:
        points: by parameter name, as in the file; what a point leaves out is drawn.
        sweep: a stored sweep whose best trials are such points, too; None for none.
        best: how many of them.
        drawn: the points that were taken from `sweep`, once they were.
    """

    points: tuple[Mapping[str, Any], ...] = ()
    sweep: str | None = None
    best: int = 5
    drawn: tuple[Mapping[str, Any], ...] | None = None

    def document(self) -> dict[str, Any]:
        """As in a sweep file."""
        source = {} if self.sweep is None else {"from": self.sweep, "best": self.best}
        drawn = {} if self.drawn is None else {"drawn": [dict(point) for point in self.drawn]}
        return {"points": [dict(point) for point in self.points], **source, **drawn}


@dataclass(frozen=True)
class SearchSpec:
    """The section `search` of a sweep file.

    Attributes:
        space: the parameters, in the file's order.
        objectives: one or several.
        per: `cell`: each cell of the grid is searched by itself; `all`: axes of the grid are searched jointly.
        sampler, pruner: by Optuna's names.
        seed: of the sampler.
        rungs: how many times on its way a trial's loss is looked at.
        points: how many each search asks.
        parameters: if set, the width follows from the depth, so that the model has about so many parameters.
    """

    space: tuple[Parameter, ...]
    objectives: tuple[Objective, ...]
    per: str = CELL
    sampler: Chosen = Chosen("auto")
    seed: int = 0
    pruner: Chosen = Chosen("none")
    rungs: int = 8
    points: int = 40
    remeasure: Remeasure = Remeasure()
    warm_start: WarmStart = WarmStart()
    parameters: int | None = None

    @property
    def sections(self) -> tuple[str, ...]:
        """Which trials a point consists of: of `schedule`, of `ramp`, or one of each."""
        needed = {objective.needs for objective in self.objectives}
        return tuple(name for name in ("schedule", "ramp") if name in needed)

    def with_drawn(self, points: tuple[Mapping[str, Any], ...]) -> SearchSpec:
        """With the points of another sweep that are asked first."""
        return replace(self, warm_start=replace(self.warm_start, drawn=points))

    def document(self) -> dict[str, Any]:
        """The section as in a sweep file, every default filled in."""
        space: dict[str, Any] = {}
        for one in self.space:
            if one.architecture is None:
                space[one.name] = one.domain.document()
            else:
                own = space.setdefault("per_architecture", {}).setdefault(one.architecture, {})
                own[one.name.removeprefix(f"{one.architecture}.")] = one.domain.document()
        objectives = {
            one.name: one.direction if one.target is None else {"direction": one.direction, "target": one.target}
            for one in self.objectives
        }
        return {
            "space": space,
            "objectives": objectives,
            "per": self.per,
            "sampler": self.sampler.document(),
            "seed": self.seed,
            "pruner": self.pruner.document(),
            "rungs": self.rungs,
            "points": self.points,
            "remeasure": asdict(self.remeasure),
            "warm_start": self.warm_start.document(),
            "parameters": self.parameters,
        }

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchSpec:
        """Inverse of `to_json`."""
        space = tuple(
            Parameter(
                one["key"],
                one["name"],
                Domain(**{**one["domain"], "values": tuple(one["domain"]["values"])}),
                one["architecture"],
            )
            for one in data["space"]
        )
        warm = data["warm_start"]
        drawn = None if warm["drawn"] is None else tuple(warm["drawn"])
        return cls(
            **{
                **data,
                "space": space,
                "objectives": tuple(Objective(**one) for one in data["objectives"]),
                "sampler": Chosen(**data["sampler"]),
                "pruner": Chosen(**data["pruner"]),
                "remeasure": Remeasure(**data["remeasure"]),
                "warm_start": WarmStart(**{**warm, "points": tuple(warm["points"]), "drawn": drawn}),
            }
        )
