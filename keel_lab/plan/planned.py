"""A plan: the distinct trials of a sweep with the cells they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from keel_lab.settings import ForkSchedule
from keel_lab.spec.label import label_text
from keel_lab.trial import Trial

Label = str | int | float | bool


class Role(StrEnum):
    """What a planned run is there for: to be measured, or to stand beside one that is."""

    TRIAL = "trial"
    REFERENCE = "reference"  # the same ramp to a tenth of the peak
    HOLD = "hold"  # a fork that holds the LR
    NOW = "now"  # a fork at a tenth of the LR, from after a divergence
    BEFORE = "before"  # and from before it


@dataclass(frozen=True)
class Cell:
    """What a table's row x column stands for; seeds are repeats in a cell.

    Attributes:
        architecture: as in the sweep file.
        blocks: depth in blocks.
        axes: the other varying axes in the sweep's own words, seeds excluded, e.g. (("alpha", "L^0.25"),). An axis that
            the architecture ignores is absent.
    """

    architecture: str
    blocks: int
    axes: tuple[tuple[str, Label], ...] = ()

    def __str__(self) -> str:
        extra = "".join(f" {name}={label_text(value)}" for name, value in self.axes)
        return f"{self.architecture} {self.blocks} blocks{extra}"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return {"architecture": self.architecture, "blocks": self.blocks, "axes": [list(axis) for axis in self.axes]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """Inverse of `to_json`."""
        return cls(data["architecture"], data["blocks"], tuple((name, value) for name, value in data["axes"]))


@dataclass(frozen=True)
class PlannedTrial:
    """A trial and its place in the sweep.

    Attributes:
        labels: options and axes in the sweep's own words (alpha: "L", seed: 0), for names, tags and tables.
        parameters: exact trainable parameters of its model; 0 if its trainer does not say.
        role: only trials of role `trial` are repeats of the cell.
    """

    trial: Trial
    cell: Cell
    labels: Mapping[str, Label]
    parameters: int
    role: Role = Role.TRIAL

    @property
    def name(self) -> str:
        """Readable and distinct within a sweep, digits kept: `keel-b16-alpha=L-s0`."""
        seeds = (self.trial.init_seed, self.trial.data_seed)
        seed = f"s{seeds[0]}" if seeds[0] == seeds[1] else f"i{seeds[0]}-d{seeds[1]}"
        axes = "".join(f"-{name}={label_text(value)}" for name, value in self.cell.axes)
        name = f"{self.cell.architecture}-b{self.cell.blocks}{axes}-{seed}"
        return name if self.role is Role.TRIAL else f"{name}-{self._beside()}"

    def _beside(self) -> str:
        at = self.trial.schedule.at if isinstance(self.trial.schedule, ForkSchedule) else None
        return str(self.role) if at is None else f"{self.role}-from-{at}"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return {
            "id": self.trial.id,
            "trial": self.trial.model_dump(mode="json"),
            "cell": self.cell.to_json(),
            "labels": dict(self.labels),
            "parameters": self.parameters,
            **({} if self.role is Role.TRIAL else {"role": str(self.role)}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlannedTrial:
        """Inverse of `to_json`."""
        trial = Trial.model_validate(data["trial"], strict=False)
        return cls(
            trial,
            Cell.from_json(data["cell"]),
            dict(data["labels"]),
            data["parameters"],
            Role(data.get("role", "trial")),
        )


@dataclass(frozen=True)
class Plan:
    """The distinct trials of a sweep in the order they should run, and how many duplicates were collapsed into them."""

    trials: tuple[PlannedTrial, ...]
    collapsed: int
