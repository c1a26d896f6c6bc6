"""The way in: a sweep file and overrides become a checked `SweepSpec`, or one error that names everything wrong."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keel_lab import own_trainer
from keel_lab.architecture import Catalogue
from keel_lab.detect.thresholds import Thresholds
from keel_lab.errors import Problem, SpecError, UsageError
from keel_lab.own_trainer import OwnCatalogue
from keel_lab.settings import Budget, Resources, SiblingSettings
from keel_lab.spec import consistency, fields, node, override
from keel_lab.spec.node import Node
from keel_lab.spec.reading import Reading, sort_problems
from keel_lab.spec.sweep import Axis, SweepSpec

LARGEST_FILE = 4 * 1024**2  # bytes; a larger one is no sweep file


def load(path: Path, overrides: Sequence[str], catalogue: Catalogue) -> SweepSpec:
    """Reads and checks a sweep file.

    Args:
        path: the file; `text:` in it is relative to its folder.
        overrides: `key.path=value`, each.
        catalogue: what architectures there are.

    Raises:
        SpecError: with everything wrong with the file and the overrides.
        UsageError: if the file cannot be read.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{path}: found a folder; give a sweep file, such as sweeps/quickstart.yaml")
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{path}: found {path.stat().st_size} bytes; a sweep file has at most {LARGEST_FILE}")
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file; {_other_file(path)}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: it cannot be read ({error}); give a readable sweep file") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"bytes that are no UTF-8 ({content[error.start : error.start + 4]!r})"
        raise SpecError([Problem(f"{path}:{line}", "(whole file)", found, "save the file as UTF-8")]) from error
    return parse(text, str(path), path.resolve().parent, overrides, catalogue)


def _other_file(path: Path) -> str:
    beside = {file.stem: file for file in sorted(path.parent.glob("*.y*ml"))} if path.parent.is_dir() else {}
    near = difflib.get_close_matches(path.stem, beside, n=1)
    if near:
        return f"did you mean {beside[near[0]]}?"
    return "give a sweep file, such as sweeps/quickstart.yaml; keel-lab init writes one to begin with"


def parse(text: str, source_name: str, folder: Path, overrides: Sequence[str], catalogue: Catalogue) -> SweepSpec:
    """Checks the text of a sweep file.

    Args:
        text: YAML 1.2.
        source_name: how messages name the file.
        folder: what `text: GLOB` is relative to.
        overrides: `key.path=value`, each.
        catalogue: what architectures there are.

    Raises:
        SpecError: with everything wrong with the text and the overrides.
    """
    problems: list[Problem] = []
    root = node.read(text, source_name, problems)
    if root is None or root.mapping is None:
        found = "an empty file" if root is None or root.value is None else root.found()
        allowed = "a sweep file holds keys: schema: 1, name, protocol, grid, ... (see sweeps/quickstart.yaml)"
        raise SpecError([Problem(f"{source_name}:1", "(whole file)", found, allowed)])
    options = {name for shipped in catalogue.names() for name in catalogue.declaration(shipped).options}
    root = override.apply(root, overrides, sorted(options), problems)
    trainer = _trainer(root)
    reading = Reading(root, _catalogue(root, trainer, catalogue, problems), problems, trainer)
    problems.extend(consistency.check(reading))
    if problems:
        raise SpecError(sort_problems(problems))
    return _build(reading, folder, trainer)


def _trainer(root: Node) -> str:
    """What stands under `trainer`, as text; ours if nothing does."""
    node = (root.mapping or {}).get("trainer")
    return own_trainer.DEFAULT if node is None or node.value is None else str(node.plain())


def _catalogue(root: Node, trainer: str, shipped: Catalogue, problems: list[Problem]) -> Catalogue:
    """The catalogue under that trainer; one that cannot be loaded is a problem, and its architectures are let pass."""
    try:
        return own_trainer.catalogue_for(trainer, shipped)
    except UsageError as error:
        place = (root.mapping or {})["trainer"]
        problems.append(Problem(place.place, "trainer", place.found(), str(error)))
        return OwnCatalogue(shipped, None)


def _build(reading: Reading, folder: Path, trainer: str) -> SweepSpec:
    """The spec of a sweep without problems."""
    data = reading.fixed["data"]
    if data or trainer == own_trainer.DEFAULT:  # a trainer of one's own needs no corpus
        data = {**({} if "text" in data else {"corpus": "stdlib"}), **data}
        data.setdefault("tokenizer", "bytes")
    listed = {key: values for key, values in reading.values.items() if values.listed}
    axes = tuple(Axis(key, values.values) for key, values in {**reading.grid.axes, **listed}.items())
    fixed = {
        "thresholds": Thresholds(**reading.fixed["divergence"]),
        "resources": Resources(**reading.fixed["resources"]),
        "budget": Budget(**reading.fixed["budget"]),
    }
    if reading.protocol == "ramp":
        fixed["siblings"] = SiblingSettings(**reading.fixed["siblings"])
    constants = {name: _constants(reading, name) for name in fields.axis_sections(reading.protocol)}
    sections = {"data": data, **{name: model.model_dump(mode="json") for name, model in fixed.items()}}
    document = _document(reading, constants, sections, trainer)
    if reading.protocol == "ramp":
        constants["schedule"] = constants.pop("ramp")
    return SweepSpec(
        name=reading.head.name,
        question=reading.head.question,
        protocol=reading.protocol,
        document=document,
        data=data,
        folder=folder,
        axes=axes,
        options={
            name: {option: values.values for option, values in own.items()} for name, own in reading.grid.own.items()
        },
        constants=constants,
        search=None if reading.search is None else reading.search.spec,
        trainer=trainer,
        lr_choice=reading.grid.lr_choice,
        **fixed,  # type: ignore[arg-type]
    )


def _constants(reading: Reading, section: str) -> dict[str, Any]:
    """The keys of a section that have one value: given, of the preset, or the default."""
    found = {}
    for key in fields.section(section):
        dotted = f"{section}.{key}"
        given = reading.values.get(dotted)
        searched = reading.search is not None and dotted in reading.search.space.limits
        varies = searched or dotted in reading.grid.axes or (given is not None and given.listed)
        value = given.values[0] if given is not None else reading.default(dotted)
        if not varies and value is not None:
            found[key] = value
    if reading.given("schedule.warmup"):
        found.pop("warmup_steps", None)
    return found


def _document(reading: Reading, constants: dict[str, Any], sections: dict[str, Any], trainer: str) -> dict[str, Any]:
    """The resolved sweep, in the order of the file's keys; parsing it again plans the same trials."""
    depth = {"blocks": list(reading.grid.axes["blocks"].values)}
    grid: dict[str, Any] = {
        key.removeprefix("options."): list(values.values) for key, values in reading.grid.axes.items()
    }
    if reading.grid.lr_choice is not None:
        grid["lr"] = reading.grid.lr_choice.to_json()
    own = {
        name: {option: _plain(values.values, values.listed) for option, values in options.items()}
        for name, options in reading.grid.own.items()
    }
    varying = {}
    for name, values in constants.items():
        listed = {
            key: _plain(reading.values[f"{name}.{key}"].values, True)
            for key in fields.section(name)
            if f"{name}.{key}" in reading.values and reading.values[f"{name}.{key}"].listed
        }
        varying[name] = {**values, **listed}
    document = {
        "schema": fields.SCHEMA,
        "name": reading.head.name,
        "question": reading.head.question,
        "protocol": reading.protocol,
        **({} if trainer == own_trainer.DEFAULT else {"trainer": trainer}),
        "grid": {("depth" if key == "blocks" else key): (depth if key == "blocks" else grid[key]) for key in grid},
        "per_architecture": own,
        **varying,
        **({} if reading.search is None or reading.search.spec is None else {"search": reading.search.spec.document()}),
        "data": sections["data"],
        **({"siblings": sections["siblings"]} if "siblings" in sections else {}),
        "divergence": sections["thresholds"],
        "resources": sections["resources"],
        "budget": sections["budget"],
    }
    return {key: document[key] for key in fields.TOP if key in document}


def _plain(values: tuple[Any, ...], listed: bool) -> Any:
    return list(values) if listed else values[0]
