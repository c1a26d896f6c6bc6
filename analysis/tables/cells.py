"""Readings put together by cell, and how a cell names itself in a row, a note or a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.readings import Reading
from keel_lab.plan.planned import Cell, Label
from keel_lab.spec.label import label_text

Axes = tuple[tuple[str, Label], ...]


@dataclass(frozen=True)
class SeededCell:
    """A cell of one sweep with the readings of its seeds."""

    sweep: str
    cell: Cell
    readings: tuple[Reading, ...]

    def __str__(self) -> str:
        return f"{self.sweep}: {self.cell}"


def by_cell(readings: Iterable[Reading]) -> list[SeededCell]:
    """Groups readings by sweep and cell, in order of first appearance."""
    groups: dict[tuple[str, Cell], list[Reading]] = {}
    for one in readings:
        groups.setdefault((one.sweep, one.planned.cell), []).append(one)
    return [SeededCell(sweep, cell, tuple(members)) for (sweep, cell), members in groups.items()]


def telling_axes(cells: Sequence[Axes]) -> set[str]:
    """Names of the axes that tell the cells apart: all but those with one value that every cell has."""
    counts = Counter(axis for axes in cells for axis in axes)
    return {name for (name, _), count in counts.items() if count < len(cells)}


def axes_text(axes: Axes) -> str:
    """`alpha=L^0.25 width=64`; empty without axes."""
    return " ".join(f"{name}={label_text(value)}" for name, value in axes)


def lacking(readings: Sequence[Reading]) -> list[str]:
    """What became of the trials without a result: `1 failed (oom)`, `2 not run`."""
    failures = Counter(
        "unknown" if one.failure is None else str(one.failure.kind) for one in readings if one.state == "failed"
    )
    waiting = sum(one.state == "not_run" for one in readings)
    words = [f"{count} failed ({kind})" for kind, count in sorted(failures.items())]
    skipped = sum(one.state == "skipped" for one in readings)
    words += [f"{skipped} skipped, a lower LR diverged"] if skipped else []
    return [*words, f"{waiting} not run"] if waiting else words
