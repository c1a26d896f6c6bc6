"""Table 1: Max LR by architecture and depth, a table a ramp, since only readings at equal shape and slope compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analysis import notation
from analysis.paper_table import ratio_for
from analysis.ramp import slope, slope_unit, title
from analysis.readings import Reading, SweepReadings
from analysis.statistics import Estimate, Ratio, ratio_of, summarise
from analysis.tables import caption
from analysis.tables.cells import SeededCell, axes_text, by_cell, lacking, telling_axes
from analysis.tables.layout import Group, Table
from keel_lab.plan.planned import Label
from keel_lab.settings import RampSchedule

REFERENCE = "pre_ln"


@dataclass(frozen=True)
class MaxLRCell:
    """A cell with its Max LR and how that stands to Pre-LN's, here and in the paper."""

    seeded: SeededCell
    estimate: Estimate
    ratio: Ratio | None
    paper_ratio: float | None


@dataclass(frozen=True)
class MaxLRTable:
    """The cells of one or several sweeps that were measured with one ramp."""

    ramp: RampSchedule
    cells: tuple[MaxLRCell, ...]
    sweeps: tuple[SweepReadings, ...]

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Of all its cells."""
        return tuple(one for cell in self.cells for one in cell.seeded.readings)


def tables(sweeps: Sequence[SweepReadings]) -> list[MaxLRTable]:
    """One table a ramp, in order of first appearance."""
    by_ramp: dict[RampSchedule, list[Reading]] = {}
    for one in (one for sweep in sweeps for one in sweep.readings):
        if isinstance(one.planned.trial.schedule, RampSchedule):
            by_ramp.setdefault(one.planned.trial.schedule, []).append(one)
    found = []
    for ramp, readings in by_ramp.items():
        names = {one.sweep for one in readings}
        found.append(MaxLRTable(ramp, _cells(readings), tuple(sweep for sweep in sweeps if sweep.stored.name in names)))
    return found


def estimate(readings: Sequence[Reading]) -> Estimate:
    """The Max LR of the seeds of one cell."""
    return summarise(
        [one.max_lr for one in readings if one.max_lr is not None],
        [str(one.verdict.mode) for one in readings if one.verdict is not None and one.verdict.mode is not None],
        failed=sum(one.state == "failed" for one in readings),
        not_run=sum(one.state == "not_run" for one in readings),
    )


def _cells(readings: Sequence[Reading]) -> tuple[MaxLRCell, ...]:
    estimates = [(seeded, estimate(seeded.readings)) for seeded in by_cell(readings)]
    references: dict[tuple[str, int], list[tuple[set[tuple[str, Label]], Estimate]]] = {}
    for seeded, value in estimates:
        if seeded.cell.architecture == REFERENCE:
            references.setdefault((seeded.sweep, seeded.cell.blocks), []).append((set(seeded.cell.axes), value))
    cells = []
    for seeded, value in estimates:
        beside = references.get((seeded.sweep, seeded.cell.blocks), [])
        # axes that Pre-LN ignores (alpha) are absent from its cells, the others must agree
        reference = next((other for axes, other in beside if axes <= set(seeded.cell.axes)), None)
        cells.append(MaxLRCell(seeded, value, _ratio(value, reference), ratio_for(seeded.readings[0].planned.trial)))
    return tuple(cells)


def _ratio(value: Estimate, reference: Estimate | None) -> Ratio | None:
    if reference is None:
        return None
    if reference is value:  # Pre-LN's own row, even where it is censored
        return None if value.median is None else Ratio(1.0, "exact")
    return ratio_of(value, reference)


def layout(table: MaxLRTable) -> Table:
    """The table in words: a row an architecture (and other axes), a group of columns a depth."""
    several, names = len(table.sweeps) > 1, ", ".join(one.stored.name for one in table.sweeps)
    telling = telling_axes([cell.seeded.cell.axes for cell in table.cells])
    depths = sorted({cell.seeded.cell.blocks for cell in table.cells})
    rows: dict[tuple[str, ...], dict[int, MaxLRCell]] = {}
    for cell in table.cells:
        axes = axes_text(tuple(axis for axis in cell.seeded.cell.axes if axis[0] in telling))
        key = (*((cell.seeded.sweep,) if several else ()), cell.seeded.cell.architecture, *((axes,) if telling else ()))
        rows.setdefault(key, {})[cell.seeded.cell.blocks] = cell
    columns = {blocks: _columns([row[blocks] for row in rows.values() if blocks in row]) for blocks in depths}
    return Table(
        title=f"Max LR by architecture and depth ({title(table.ramp)}): {names}",
        stub=(*(("sweep",) if several else ()), "architecture", *(("axes",) if telling else ())),
        groups=tuple(Group(f"{blocks} blocks", columns[blocks], f"{2 * blocks} sub-layers") for blocks in depths),
        rows=tuple(
            (*key, *(word for blocks in depths for word in _words(row.get(blocks), columns[blocks])))
            for key, row in rows.items()
        ),
        notes=(*_cell_notes(table, several), *_notes(table)),
    )


def _notes(table: MaxLRTable) -> list[str]:
    return [
        *caption.measure(table.readings),
        caption.ramp(table.ramp),
        *caption.intervals([cell.estimate for cell in table.cells]),
        *caption.ratios(
            REFERENCE,
            ours=any(cell.ratio for cell in table.cells),
            paper=any(cell.ratio and cell.paper_ratio is not None for cell in table.cells),
        ),
        *caption.setting(table.sweeps, table.readings),
    ]


def _columns(cells: Sequence[MaxLRCell]) -> tuple[str, ...]:
    seeds = any(cell.estimate.planned > 1 for cell in cells)
    ratios = any(cell.ratio is not None for cell in cells)
    paper = ratios and any(cell.paper_ratio is not None for cell in cells)
    return (
        "Max LR",
        *(("range", "n") if seeds else ()),
        "mode",
        *(("ratio",) if ratios else ()),
        *(("paper's ratio",) if paper else ()),
    )


def _words(cell: MaxLRCell | None, columns: tuple[str, ...]) -> list[str]:
    if cell is None:
        return ["-"] * len(columns)
    paper = None if cell.paper_ratio is None else Ratio(cell.paper_ratio, "exact")
    words = {
        "Max LR": notation.max_lr(cell.estimate),
        "range": notation.span(cell.estimate),
        "n": notation.seeds(cell.estimate),
        "mode": notation.modes(cell.estimate),
        "ratio": notation.ratio(cell.ratio),
        "paper's ratio": notation.ratio(paper),
    }
    return [words[name] for name in columns]


def _cell_notes(table: MaxLRTable, several: bool) -> list[str]:
    notes = []
    for cell in table.cells:
        value, parts = cell.estimate, []
        if value.not_learned:
            parts.append(f"{value.not_learned} not learned at this slope")
        if value.undecided:
            parts.append(f"{value.undecided} undecided")
        parts += lacking(cell.seeded.readings)
        if parts:
            name = str(cell.seeded) if several else str(cell.seeded.cell)
            notes.append(f"{name}: of {value.planned} seed{'s' * (value.planned > 1)}, {', '.join(parts)}.")
    return notes


def records(table: MaxLRTable) -> list[dict[str, Any]]:
    """One flat record a cell, with everything that the table says and nothing that a repeat would change."""
    return [_record(cell, table.ramp) for cell in table.cells]


def _record(cell: MaxLRCell, ramp: RampSchedule) -> dict[str, Any]:
    where, value = cell.seeded.cell, cell.estimate
    return {
        "sweep": cell.seeded.sweep,
        "architecture": where.architecture,
        "axes": dict(where.axes),
        "blocks": where.blocks,
        "sublayers": 2 * where.blocks,
        "n_planned": value.planned,
        "n": value.n,
        "max_lr_median": value.median,
        "low": value.low,
        "high": value.high,
        "high_is_bound": value.censored > 0,
        "range_coverage": value.coverage,
        "kind": value.kind,
        "measured": value.measured,
        "censored": value.censored,
        "not_learned": value.not_learned,
        "undecided": value.undecided,
        "failed": value.failed,
        "not_run": value.not_run,
        "modes": dict(value.modes),
        "ratio_to_pre_ln": None if cell.ratio is None else cell.ratio.value,
        "ratio_kind": None if cell.ratio is None else cell.ratio.kind,
        "paper_ratio": cell.paper_ratio,
        "shape": ramp.shape,
        "from_lr": ramp.from_lr,
        "peak_lr": ramp.peak_lr,
        "steps": ramp.steps,
        "slope": slope(ramp),
        "slope_unit": slope_unit(ramp),
        "detector": sorted({one.verdict.detector for one in cell.seeded.readings if one.verdict is not None}),
    }


def seed_records(cell: MaxLRCell) -> list[dict[str, Any]]:
    """The reading of each seed of a cell."""
    return [_seed_record(one) for one in cell.seeded.readings]


def _seed_record(one: Reading) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "trial": one.planned.trial.id,
        "init_seed": one.planned.trial.init_seed,
        "data_seed": one.planned.trial.data_seed,
        "state": one.state,
        "failure": None if one.failure is None else str(one.failure.kind),
        "kind": None if one.max_lr is None else str(one.max_lr.kind),
        "max_lr": None if one.max_lr is None else one.max_lr.lr,
        "verdict": None if verdict is None else str(verdict.status),
        "mode": None if verdict is None or verdict.mode is None else str(verdict.mode),
        "onset_step": None if verdict is None else verdict.onset_step,
        "last_good_step": None if verdict is None else verdict.last_good_step,
    }
