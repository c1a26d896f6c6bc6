"""A sweep file that was read and found good: everything that planning needs, as plain typed data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keel_lab.detect.thresholds import Thresholds
from keel_lab.own_trainer import DEFAULT
from keel_lab.settings import ALONE, Budget, Resources, SiblingSettings
from keel_lab.spec.lr_choice import LrChoice
from keel_lab.spec.search import SearchSpec


@dataclass(frozen=True)
class Axis:
    """The values of one key.

    Attributes:
        key: `architecture`, `blocks`, `seed`, `init_seed`, `data_seed`, `options.NAME`, or a dotted key such as
            `model.width` or `ramp.steps`.
        values: typed; rules and percentages in the sweep's own words.
    """

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SweepSpec:
    """One checked sweep.

    Attributes:
        name: folder and experiment name.
        question: what the sweep asks, if it says so.
        protocol: `ramp`, `grid` or `search`.
        document: the file with every default filled in and ranges written out, as JSON data; itself a valid sweep.
        thresholds, resources, budget: its sections.
        siblings: which runs stand beside each ramp; none for protocol grid, whose trials are siblings themselves.
        data: as in the file, with the tokenizer filled in.
        folder: what `text: GLOB` is relative to.
        axes: the keys that the grid or a list gives, constants of the grid included, in the file's order.
        options: `per_architecture`: values by architecture and option.
        constants: defaults and scalars of `model`, `train` and `schedule` (the protocol's section, ramp or schedule; a
            search has `schedule` and `ramp`).
        trainer: the module that trains, see `keel_lab.own_trainer`.
        lr_choice: where the peak LRs come from, if another sweep is to give them; then no axis does.
        search: of protocol search, what it searches; else None.
    """

    name: str
    question: str | None
    protocol: str
    document: Mapping[str, Any]
    thresholds: Thresholds
    resources: Resources
    budget: Budget
    data: Mapping[str, Any]
    folder: Path
    axes: tuple[Axis, ...]
    options: Mapping[str, Mapping[str, tuple[Any, ...]]]
    constants: Mapping[str, Mapping[str, Any]]
    siblings: SiblingSettings = ALONE
    trainer: str = DEFAULT
    lr_choice: LrChoice | None = None
    search: SearchSpec | None = None

    def with_rates(self, rates: Mapping[str, float]) -> SweepSpec:
        """With the LRs chosen for its cells recorded, in the document too."""
        assert self.lr_choice is not None
        chosen = replace(self.lr_choice, rates=rates)
        grid = {**self.document["grid"], "lr": chosen.to_json()}
        return replace(self, lr_choice=chosen, document={**self.document, "grid": grid})

    def with_drawn(self, points: tuple[Mapping[str, Any], ...]) -> SweepSpec:
        """With the points recorded, in the document too, that another sweep gives a search to begin with."""
        assert self.search is not None
        search = self.search.with_drawn(points)
        return replace(self, search=search, document={**self.document, "search": search.document()})

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return {
            "name": self.name,
            "question": self.question,
            "protocol": self.protocol,
            "document": dict(self.document),
            "thresholds": self.thresholds.model_dump(mode="json"),
            "resources": self.resources.model_dump(mode="json"),
            "budget": self.budget.model_dump(mode="json"),
            "siblings": self.siblings.model_dump(mode="json"),
            "data": dict(self.data),
            "folder": str(self.folder),
            "axes": [[axis.key, list(axis.values)] for axis in self.axes],
            "options": {
                name: {option: list(values) for option, values in own.items()} for name, own in self.options.items()
            },
            "constants": {name: dict(values) for name, values in self.constants.items()},
            **({} if self.trainer == DEFAULT else {"trainer": self.trainer}),  # as sweeps stored before it was
            **({} if self.lr_choice is None else {"lr_choice": self.lr_choice.to_json()}),
            **({} if self.search is None else {"search": self.search.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SweepSpec:
        """Inverse of `to_json`."""
        sections: dict[str, Any] = {
            "thresholds": Thresholds.model_validate(data["thresholds"]),
            "resources": Resources.model_validate(data["resources"]),
            "budget": Budget.model_validate(data["budget"]),
            "siblings": SiblingSettings.model_validate(data.get("siblings", ALONE.model_dump())),
            "folder": Path(data["folder"]),
            "axes": tuple(Axis(key, tuple(values)) for key, values in data["axes"]),
            "options": {
                name: {option: tuple(values) for option, values in own.items()} for name, own in data["options"].items()
            },
        }
        if "lr_choice" in data:
            sections["lr_choice"] = LrChoice.from_json(data["lr_choice"])
        if "search" in data:
            sections["search"] = SearchSpec.from_json(data["search"])
        known = {key: value for key, value in data.items() if key != "points_to_ask"}
        return cls(**{**known, **sections})
