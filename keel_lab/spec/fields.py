"""Every key of a sweep file, with what may stand under it: one table that reading, messages and expansion share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from keel_lab.detect.thresholds import Thresholds
from keel_lab.settings import (
    Blocks,
    Budget,
    GridSchedule,
    ModelSettings,
    RampSchedule,
    Resources,
    Seed,
    Settings,
    SiblingSettings,
    TrainSettings,
)
from keel_lab.spec import kind
from keel_lab.spec.kind import Kind

SCHEMA = 1
PROTOCOLS = {  # protocol: the sections that say how its learning rate moves
    "ramp": ("ramp",),
    "grid": ("schedule",),
    "search": ("ramp", "schedule"),
}
SCHEDULES = ("ramp", "schedule")
TOP = (
    "schema",
    "name",
    "question",
    "protocol",
    "trainer",
    "grid",
    "per_architecture",
    "model",
    "data",
    "train",
    "ramp",
    "schedule",
    "search",
    "siblings",
    "divergence",
    "resources",
    "budget",
)
SEEDS = ("seed", "init_seed", "data_seed")
DEPTHS = ("blocks", "sublayers")
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"shape": "linear", "from_lr": 0.0, "peak_lr": 5e-2, "steps": 5000},  # section 5.1: 1e-5 a step
}


class _Data(Settings):
    """The corpus, by name or as files, and how it becomes tokens; `corpus` and `text` exclude each other."""

    corpus: Literal["stdlib"] = "stdlib"
    text: Annotated[str, Field(min_length=1)]
    tokenizer: Literal["bytes"] = "bytes"


_MODELS: Mapping[str, type[Settings]] = {
    "model": ModelSettings,
    "data": _Data,
    "train": TrainSettings,
    "ramp": RampSchedule,
    "schedule": GridSchedule,
    "siblings": SiblingSettings,
    "divergence": Thresholds,
    "resources": Resources,
    "budget": Budget,
}
_SPECIAL = {"resources.memory": kind.MEMORY, "budget.wall_time": kind.DURATION, "budget.trial_time": kind.DURATION}


class _Loose(Settings):
    """Keys that stand in no settings model."""

    blocks: Blocks
    sublayers: Annotated[int, Field(ge=2, le=200_000)]
    seed: Seed


@cache
def section(name: str) -> Mapping[str, Kind]:
    """The keys of a section, in the order of its settings model."""
    fields = {
        key: _SPECIAL.get(f"{name}.{key}") or kind.of_field(info)
        for key, info in _MODELS[name].model_fields.items()
        if key != "kind"
    }
    return {**fields, "warmup": kind.PERCENTAGE} if name == "schedule" else fields


@cache
def loose(name: str) -> Kind:
    """The kind of a depth (`blocks`, `sublayers`) or of a seed."""
    return kind.of_field(_Loose.model_fields["seed" if name in SEEDS else name])


def defaults(name: str) -> dict[str, Any]:
    """The defaults of a section as plain data; a key without one is absent."""
    return {
        key: list(info.default) if isinstance(info.default, tuple) else info.default
        for key, info in _MODELS[name].model_fields.items()
        if key != "kind" and not info.is_required()
    }


def axis_sections(protocol: str) -> tuple[str, ...]:
    """The sections whose keys may vary from trial to trial: those that a trial's id hashes."""
    return ("model", "train", *PROTOCOLS[protocol])


def dotted(protocol: str) -> list[str]:
    """Every key that may be an axis, dotted: `model.width`, ..."""
    return [f"{name}.{key}" for name in axis_sections(protocol) for key in section(name)]


def candidates(word: str, protocol: str, options: Iterable[str]) -> list[str]:
    """What a key under `grid` can stand for: dotted keys, and `options.NAME` for an architecture's option."""
    known = dotted(protocol)
    if word in known:
        return [word]
    found = [key for key in known if key.split(".")[1] == word]
    return found + [f"options.{name}" for name in options if name == word]
