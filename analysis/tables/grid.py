"""Grid sweeps: final validation loss by architecture and depth (rows) and peak LR (columns), diverged runs said so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from analysis.readings import Reading, SweepReadings
from analysis.tables import caption
from analysis.tables.cells import Axes, axes_text, lacking, telling_axes
from analysis.tables.layout import Group, Table
from keel_lab.detect.verdict import Mode, Status
from keel_lab.settings import GridSchedule
from keel_lab.spec.label import label_text

METRIC = "val_loss"


@dataclass(frozen=True)
class GridCell:
    """The seeds of one architecture, depth and peak LR; `axes` are the other axes."""

    sweep: str
    architecture: str
    blocks: int
    axes: Axes
    lr: float
    readings: tuple[Reading, ...]

    @property
    def diverged(self) -> int:
        """Seeds that left a level they had reached, or became non-finite; one that never learned left none."""
        return sum(_lost(one) for one in self.readings)

    @property
    def not_learned(self) -> int:
        """Seeds that never got clearly below the unigram level: stagnation, or too few steps."""
        return sum(one.verdict is not None and one.verdict.mode is Mode.STAGNATION for one in self.readings)

    @property
    def losses(self) -> list[float]:
        """Validation losses of the seeds that finished and did not diverge, finite, nats a token."""
        found = [
            one.result.metrics.get(METRIC, math.nan)
            for one in self.readings
            if one.result is not None and one.verdict is not None and not _lost(one)
        ]
        return [loss for loss in found if math.isfinite(loss)]


def _lost(reading: Reading) -> bool:
    verdict = reading.verdict
    return verdict is not None and verdict.status is Status.DIVERGED and verdict.mode is not Mode.STAGNATION


@dataclass(frozen=True)
class GridTable:
    """The cells of one or several sweeps that differ in nothing of their schedule but the peak LR."""

    schedule: GridSchedule
    cells: tuple[GridCell, ...]
    sweeps: tuple[SweepReadings, ...]


def tables(sweeps: Sequence[SweepReadings]) -> list[GridTable]:
    """One table a schedule (apart from its peak LR), in order of first appearance."""
    groups: dict[GridSchedule, list[Reading]] = {}
    for one in (one for sweep in sweeps for one in sweep.readings):
        schedule = one.planned.trial.schedule
        if isinstance(schedule, GridSchedule):
            groups.setdefault(schedule.model_copy(update={"lr": 1.0}), []).append(one)
    found = []
    for schedule, readings in groups.items():
        names = {one.sweep for one in readings}
        found.append(GridTable(schedule, _cells(readings), tuple(one for one in sweeps if one.stored.name in names)))
    return found


def _cells(readings: Sequence[Reading]) -> tuple[GridCell, ...]:
    groups: dict[tuple[str, str, int, Axes, float], list[Reading]] = {}
    for one in readings:
        cell, schedule = one.planned.cell, one.planned.trial.schedule
        assert isinstance(schedule, GridSchedule)
        others = tuple(axis for axis in cell.axes if not _is_peak_lr(axis[0]))
        groups.setdefault((one.sweep, cell.architecture, cell.blocks, others, schedule.lr), []).append(one)
    return tuple(GridCell(*key, tuple(members)) for key, members in groups.items())


def _is_peak_lr(axis: str) -> bool:
    return axis.rpartition(".")[2] in ("lr", "peak_lr")


def layout(table: GridTable) -> Table:
    """The table in words: a row an architecture, depth and other axes; a column a peak LR."""
    several, names = len(table.sweeps) > 1, ", ".join(one.stored.name for one in table.sweeps)
    telling = telling_axes([cell.axes for cell in table.cells])
    lrs = sorted({cell.lr for cell in table.cells})
    rows: dict[tuple[str, ...], dict[float, GridCell]] = {}
    for cell in table.cells:
        axes = axes_text(tuple(axis for axis in cell.axes if axis[0] in telling))
        depth = f"{cell.blocks} blocks ({2 * cell.blocks} sub-layers)"
        key = (*((cell.sweep,) if several else ()), cell.architecture, depth, *((axes,) if telling else ()))
        rows.setdefault(key, {})[cell.lr] = cell
    return Table(
        title=f"Validation loss by architecture, depth and peak LR: {names}",
        stub=(*(("sweep",) if several else ()), "architecture", "depth", *(("axes",) if telling else ())),
        groups=(Group("peak LR", tuple(map(label_text, lrs))),),
        rows=tuple((*key, *(_words(row.get(lr)) for lr in lrs)) for key, row in rows.items()),
        notes=tuple(_notes(table)),
    )


def _words(cell: GridCell | None) -> str:
    if cell is None:
        return "-"
    losses, total = cell.losses, len(cell.readings)
    words = [f"{fmean(losses):.4f} (n={len(losses)})"] if losses else []
    if cell.diverged:
        words.append(f"diverged {cell.diverged}/{total}")
    if cell.not_learned:
        words.append(f"not learned {cell.not_learned}/{total}")
    if _unmeasured(cell):
        words.append(f"no finite {METRIC} {_unmeasured(cell)}/{total}")
    return ", ".join([*words, *lacking(cell.readings)])


def _unmeasured(cell: GridCell) -> int:
    return sum(one.result is not None for one in cell.readings) - cell.diverged - len(cell.losses)


def _notes(table: GridTable) -> list[str]:
    schedule, readings = table.schedule, [one for cell in table.cells for one in cell.readings]
    decay = f"cosine to {label_text(schedule.final_lr)}" if schedule.shape == "cosine" else "constant"
    detectors = sorted({one.verdict.detector for one in readings if one.verdict is not None})
    return [
        f"Schedule: warm-up over {schedule.warmup_steps} of {schedule.steps} steps, then {decay}.",
        "Mean over the n seeds that did not diverge, nats a token. Where some diverged, it is a mean of the survivors.",
        *([caption.NOT_LEARNED] if any(cell.not_learned for cell in table.cells) else []),
        *edges(table.cells),
        *([f"Verdicts by detector {', '.join(detectors)}."] if detectors else []),
        *caption.setting(table.sweeps, readings),
    ]


def edges(cells: Sequence[GridCell]) -> list[str]:
    """Where the best LR of an architecture and depth is the largest or smallest tried: a bound, not an optimum."""
    groups: dict[tuple[str, str, int], list[GridCell]] = {}
    for cell in cells:
        groups.setdefault((cell.sweep, cell.architecture, cell.blocks), []).append(cell)
    found = []
    for (_, architecture, blocks), members in groups.items():
        lrs, measured = {cell.lr for cell in members}, [cell for cell in members if cell.losses]
        if len(lrs) < 2 or not measured:
            continue
        best = min(measured, key=lambda cell: fmean(cell.losses)).lr
        for lr, sign, word in ((max(lrs), ">=", "largest"), (min(lrs), "<=", "smallest")):
            if best == lr:
                bound = f"best LR {sign} {label_text(best)}"
                found.append(f"{architecture}, {blocks} blocks: {bound}: it is the {word} tried; extend the grid.")
    return found


def records(table: GridTable) -> list[dict[str, Any]]:
    """One flat record a cell."""
    return [_record(cell, table.schedule) for cell in table.cells]


def _record(cell: GridCell, schedule: GridSchedule) -> dict[str, Any]:
    losses = cell.losses
    return {
        "sweep": cell.sweep,
        "architecture": cell.architecture,
        "axes": dict(cell.axes),
        "blocks": cell.blocks,
        "sublayers": 2 * cell.blocks,
        "lr": cell.lr,
        "n_planned": len(cell.readings),
        "n": len(losses),
        "val_loss_mean": fmean(losses) if losses else None,
        "low": min(losses, default=None),
        "high": max(losses, default=None),
        "diverged": cell.diverged,
        "not_learned": cell.not_learned,
        "without_val_loss": _unmeasured(cell),
        "failed": sum(one.state == "failed" for one in cell.readings),
        "not_run": sum(one.state == "not_run" for one in cell.readings),
        "shape": schedule.shape,
        "steps": schedule.steps,
        "warmup_steps": schedule.warmup_steps,
        "final_lr": schedule.final_lr,
        "detector": sorted({one.verdict.detector for one in cell.readings if one.verdict is not None}),
    }
