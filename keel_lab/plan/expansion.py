"""From a checked sweep to its distinct trials: axes multiplied, rules resolved, what makes no difference collapsed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from keel_lab import own_trainer
from keel_lab.architecture import Catalogue, CorpusFacts, Declaration, Option
from keel_lab.plan.chosen_lr import ChosenLrs
from keel_lab.plan.planned import Cell, Label, Plan, PlannedTrial
from keel_lab.plan.siblings import with_references
from keel_lab.settings import (
    MOE_ONLY,
    OPTIMIZER_ONLY,
    OPTIMIZERS,
    GridSchedule,
    ModelSettings,
    RampSchedule,
    Settings,
    TrainSettings,
)
from keel_lab.spec import quantity, rule
from keel_lab.spec.fields import PROTOCOLS, SCHEDULES
from keel_lab.spec.label import label_text
from keel_lab.trial import DataRef, OptionValue, Trial

if TYPE_CHECKING:
    from keel_lab.spec.sweep import Axis, SweepSpec

SEEDS = ("seed", "init_seed", "data_seed")
Made = TypeVar("Made", bound=Settings)


def expand(spec: SweepSpec, catalogue: Catalogue, facts: CorpusFacts, chosen: ChosenLrs | None = None) -> Plan:
    """Every distinct trial of a sweep, the first seed of every cell first, cells in the file's order; references too.

    An axis that an architecture ignores, and rules that give equal numbers, collapse before ids are made.

    Args:
        spec: the sweep.
        catalogue: its architectures.
        facts: its corpus.
        chosen: chooses the LR of each cell, where `spec.lr_choice` asks for it; recorded rates need no chooser.

    Raises:
        KeyError: if the catalogue does not know an architecture that it knew when the sweep was checked.
    """
    if chosen is None and spec.lr_choice is not None:
        chosen = ChosenLrs(spec.lr_choice, None)
    if spec.search is not None:
        return Plan((), 0)  # its trials are known once they are asked for, see `keel_lab.search`
    expansion = Expansion(spec, catalogue, facts, chosen)
    distinct: dict[str, PlannedTrial] = {}
    total = 0
    for seeds in combinations([axis for axis in spec.axes if axis.key in SEEDS]):
        for values in combinations([axis for axis in spec.axes if axis.key not in SEEDS]):
            for own in expansion.own_options(values["architecture"]):
                planned = expansion.trial(values, own, seeds)
                distinct.setdefault(planned.trial.id, planned)
                total += 1
    return Plan(with_references(distinct.values(), spec.siblings), total - len(distinct))


def combinations(axes: list[Axis]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of axes, by key."""
    keys = [axis.key for axis in axes]
    yield from (dict(zip(keys, values, strict=True)) for values in itertools.product(*(axis.values for axis in axes)))


class Expansion:
    """Makes the trials of a sweep from values of its axes."""

    def __init__(
        self, spec: SweepSpec, catalogue: Catalogue, facts: CorpusFacts, chosen: ChosenLrs | None = None
    ) -> None:
        self._spec = spec
        self._chosen = chosen
        self._catalogue = catalogue
        data = (
            DataRef(fingerprint=facts.fingerprint, tokenizer=facts.tokenizer, vocab=facts.vocab)
            if facts.vocab
            else None
        )
        self._data, self._vocab = data, facts.vocab
        self._numerics = own_trainer.numerics(spec.trainer)
        self._varying = {axis.key for axis in spec.axes if len(axis.values) > 1}
        if spec.search is not None:
            self._varying |= {one.key for one in spec.search.space}
        self._parameters: dict[str, int] = {}
        self._sections: dict[str, Settings] = {}

    def own_options(self, architecture: str) -> Iterator[dict[str, Any]]:
        """Every combination of what `per_architecture` says of one architecture."""
        own = self._spec.options.get(architecture, {})
        yield from (dict(zip(own, values, strict=True)) for values in itertools.product(*own.values()))

    def trial(
        self, values: Mapping[str, Any], own: Mapping[str, Any], seeds: Mapping[str, int], section: str = ""
    ) -> PlannedTrial:
        """The trial of one combination; of a search, the one whose LR moves by `section`, `ramp` or `schedule`."""
        section = section or PROTOCOLS[self._spec.protocol][0]
        values = {key: value for key, value in values.items() if key.split(".")[0] not in {*SCHEDULES} - {section}}
        architecture, blocks = values["architecture"], values["blocks"]
        declaration = self._catalogue.declaration(architecture)
        shape = self._section("model", values)
        idle = {f"model.{name}" for name in (*declaration.ignores, *(MOE_ONLY if shape["ffn"] != "moe" else ()))}
        train, unused = _canonical(self._section("train", values))
        idle |= {f"train.{name}" for name in unused}
        values = {key: value for key, value in values.items() if key not in idle}
        words = _words(declaration, values, own)
        trial = Trial(
            trainer=self._spec.trainer,
            numerics=self._numerics,
            architecture=architecture,
            options=_options(declaration, words, 2 * blocks),
            blocks=blocks,
            model=self._made(ModelSettings, {key: value for key, value in shape.items() if f"model.{key}" not in idle}),
            data=self._data,
            train=self._made(TrainSettings, train),
            schedule=self._schedule(values, section),
            init_seed=seeds.get("init_seed", seeds.get("seed", 0)),
            data_seed=seeds.get("data_seed", seeds.get("seed", 0)),
            resources=self._spec.resources,
        )
        cell = Cell(architecture, blocks, self._axes(declaration, values, own))
        if self._chosen is not None:
            trial = trial.with_schedule(self._chosen.schedule(cell, trial))
        return PlannedTrial(trial, cell, self._labels(words, values, trial, seeds), self._count(trial))

    def _section(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Constants and this combination's values of a section, ready for its settings model."""
        varied = {key.split(".")[1]: value for key, value in values.items() if key.startswith(f"{name}.")}
        constants = self._spec.constants
        merged = {**constants.get(name, constants["schedule"]), **varied}  # protocol ramp calls its own `schedule`
        return {key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()}

    def _schedule(self, values: Mapping[str, Any], name: str) -> RampSchedule | GridSchedule:
        if name == "ramp":
            return self._made(RampSchedule, self._section("ramp", values))
        section = self._section("schedule", values)
        if self._chosen is not None:
            section["lr"] = 1.0  # until the cell is known
        share = section.pop("warmup", None)
        if share is not None:
            section["warmup_steps"] = quantity.warmup_steps(share, section["steps"])
        return self._made(GridSchedule, section)

    def _made(self, kind: type[Made], section: Mapping[str, Any]) -> Made:
        """The settings of a section; one object for equal ones, which are most of what a large plan is made of."""
        key = f"{kind.__name__} {section!r}"  # not their hash: -0.0 is equal to 0.0, and reads otherwise in an id
        if key not in self._sections:
            self._sections[key] = kind(**section)
        return cast(Made, self._sections[key])

    def _axes(
        self, declaration: Declaration, values: Mapping[str, Any], own: Mapping[str, Any]
    ) -> tuple[tuple[str, Label], ...]:
        """What tells this cell from others of its architecture and depth."""
        shared = [
            (name, _label(value))
            for key, value in values.items()
            if key in self._varying and "." in key and _counts(declaration, own, key)
            for name in [key.split(".")[1]]
        ]
        several = self._spec.options.get(declaration.name, {})
        return (*shared, *((name, _label(value)) for name, value in own.items() if len(several[name]) > 1))

    def _labels(
        self, words: Mapping[str, Any], values: Mapping[str, Any], trial: Trial, seeds: Mapping[str, int]
    ) -> dict[str, Label]:
        axes = {
            key.split(".")[1]: _label(value) for key, value in values.items() if "." in key and "options." not in key
        }
        rate: dict[str, Label] = {"lr": trial.schedule.lr} if isinstance(trial.schedule, GridSchedule) else {}
        if self._spec.lr_choice is not None:
            rate["lr_from"] = self._spec.lr_choice.words
        apart = {"init_seed": trial.init_seed, "data_seed": trial.data_seed}
        alike = "init_seed" not in seeds and "data_seed" not in seeds
        return {**words, **axes, **rate, **({"seed": trial.init_seed} if alike else apart)}

    def _count(self, trial: Trial) -> int:
        key = f"{trial.architecture} {trial.blocks} {trial.model!r} {sorted(trial.options.items())!r}"
        if key not in self._parameters:
            self._parameters[key] = self._catalogue.parameters(
                trial.architecture, trial.model, trial.blocks, trial.options, self._vocab
            )
        return self._parameters[key]


def _canonical(train: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The keys of `train` that make a difference, one form for what is one thing; and the names of those that do not.

    Without a clip there is no threshold, and with threshold `off` no clip.
    """
    unused = set(OPTIMIZER_ONLY) - set(OPTIMIZERS[train["optimizer"]])
    kept = {name: value for name, value in train.items() if name not in unused}
    if train["clip"] == "off":
        return {**kept, "clip": "global", "clip_norm": "off"}, {*unused, "clip_norm"}
    if train["clip_norm"] == "off":
        return {**kept, "clip": "global"}, {*unused, "clip"}
    return kept, unused


def _words(declaration: Declaration, values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, OptionValue]:
    """Every option of an architecture in the sweep's own words: its own, else the grid's, else the default."""
    return {
        name: own.get(name, values.get(f"options.{name}", option.default))
        for name, option in declaration.options.items()
    }


def _counts(declaration: Declaration, own: Mapping[str, Any], key: str) -> bool:
    """Whether an axis makes a difference to an architecture."""
    section, name = key.split(".")
    return section != "options" or (name in declaration.options and name not in own)


def _options(declaration: Declaration, words: Mapping[str, OptionValue], sublayers: int) -> dict[str, OptionValue]:
    """Every option as a number, flag or word, but for those that `Option.later` leaves out."""
    found = {name: _resolved(declaration.options[name], word, sublayers) for name, word in words.items()}
    return {
        name: value
        for name, value in found.items()
        if not declaration.options[name].later or value != declaration.options[name].default
    }


def _resolved(option: Option, word: OptionValue, sublayers: int) -> OptionValue:
    if option.kind == "rule":
        return rule.resolve(word if isinstance(word, str) else float(word), sublayers)
    return float(word) if option.kind == "number" else word


def _label(value: Any) -> Label:
    if isinstance(value, list | tuple):
        return ",".join(label_text(part) for part in value)
    return value if isinstance(value, str | int | float | bool) else str(value)
