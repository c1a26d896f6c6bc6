"""What a search varies has no other source in the file, and what it needs has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keel_lab.errors import Problem
from keel_lab.spec import fields
from keel_lab.spec.axis import Values
from keel_lab.spec.search_reading import SearchReader

if TYPE_CHECKING:
    from keel_lab.spec.reading import Reading


def problems(reading: Reading, search: SearchReader) -> list[Problem]:
    """Keys that are searched and given, several values where a search takes one, and an LR that is missing."""
    return [*_twice(reading, search), *_several(reading), *_no_lr(reading, search)]


def _twice(reading: Reading, search: SearchReader) -> Iterator[Problem]:
    own = reading.grid.own
    for one in search.space.parameters:
        option = one.key.removeprefix("options.")
        owners = [one.architecture] if one.architecture else list(own)
        owned = [own.get(name, {}).get(option) for name in owners] if option != one.key else []
        for found in (reading.grid.axes.get(one.key) or reading.values.get(one.key), *owned):
            if found is not None:
                yield _problem(found, f"search.space.{one.name} searches it: keep one of the two")


def _several(reading: Reading) -> Iterator[Problem]:
    if reading.grid.lr_choice is not None:
        node = (reading.entries["grid"].mapping or {}).get("lr") or reading.entries["grid"]
        allowed = "a search has LRs of its own: search lr, or give one: schedule: {lr: 1e-3}"
        yield Problem(node.place, "grid.lr", node.found(), allowed)
    for key in fields.SEEDS[1:]:
        if key in reading.grid.axes:
            yield _problem(reading.grid.axes[key], "a search has repeats of a point: give seed: [0, 1]")
    for name, options in reading.grid.own.items():
        for found in options.values():
            if len(found.items) > 1:
                allowed = f"a search takes one value here: search.space.per_architecture.{name} searches several"
                yield _problem(found, allowed)


def _no_lr(reading: Reading, search: SearchReader) -> Iterator[Problem]:
    spec = search.spec
    if spec is None or "schedule" not in spec.sections or reading.given("schedule.lr") is not None:
        return
    if not any(one.key == "schedule.lr" for one in spec.space):
        names = ", ".join(one.name for one in spec.objectives if one.needs == "schedule")
        allowed = f"{names} needs runs with a schedule: search lr, or give schedule: {{lr: 1e-3}}"
        yield Problem(search.node.place, "search.space.lr", "no LR", allowed)


def _problem(values: Values, allowed: str) -> Problem:
    return Problem(values.node.place, values.key, values.node.found(), allowed)
