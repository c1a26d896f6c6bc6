"""Table 1: Max LR by architecture and depth, a table a ramp, since only readings at equal shape and slope compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis import notation
from analysis.censored import Bounds
from analysis.intervals import LEVEL
from analysis.paper_table import ratio_for
from analysis.ramp import title
from analysis.ratios import Ratio, paired_ratio
from analysis.readings import Counting, Reading, SweepReadings
from analysis.seed_reading import SeedReading
from analysis.statistics import Estimate, summarise
from analysis.tables import caption
from analysis.tables.cells import SeededCell, axes_text, by_cell, lacking, telling_axes
from analysis.tables.layout import Group, Table
from keel_lab.settings import RampSchedule

REFERENCE = "pre_ln"
RULES = {Counting.DEGRADATION: "modes 1+2+3", Counting.IRREVERSIBLE: "irreversible"}  # beside modes 1+2, strict
_BRACKETS = f"[{LEVEL:.0%} interval]"


@dataclass(frozen=True)
class MaxLRCell:
    """A cell with its Max LR and how that stands to Pre-LN's, here and in the paper.

    Attributes:
        estimate: strict: any lost level counts.
        others: under the other rules of what counts, those that its trials were run for.
    """

    seeded: SeededCell
    estimate: Estimate
    others: Mapping[Counting, Estimate]
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


def estimate(readings: Sequence[Reading], rule: Counting = Counting.STRICT) -> Estimate:
    """The Max LR of the seeds of one cell, under a rule of what counts as divergence."""
    verdicts = [one.judged(rule) for one in readings]
    return summarise(
        seed_readings(readings, rule),
        [str(verdict.mode) for verdict in verdicts if verdict is not None and verdict.mode is not None],
        failed=sum(one.state == "failed" for one in readings),
        not_run=sum(one.state == "not_run" for one in readings),
    )


def seed_readings(readings: Sequence[Reading], rule: Counting = Counting.STRICT) -> list[SeedReading]:
    """The finished ones, as bounds on Max LR with their seeds."""
    return [
        SeedReading.of(max_lr, one.planned.trial.init_seed, one.planned.trial.data_seed)
        for one in readings
        if (max_lr := one.counting(rule)) is not None
    ]


def _cells(readings: Sequence[Reading]) -> tuple[MaxLRCell, ...]:
    found = by_cell(readings)
    references: dict[tuple[str, int], list[SeededCell]] = {}
    for seeded in found:
        if seeded.cell.architecture == REFERENCE:
            references.setdefault((seeded.sweep, seeded.cell.blocks), []).append(seeded)
    others = (Counting.DEGRADATION, Counting.IRREVERSIBLE)
    told = [rule for rule in others if any(one.judged(rule) for one in readings)]
    cells = []
    for seeded in found:
        beside = references.get((seeded.sweep, seeded.cell.blocks), [])
        # axes that Pre-LN ignores (alpha) are absent from its cells, the others must agree
        reference = next((one for one in beside if set(one.cell.axes) <= set(seeded.cell.axes)), None)
        ratio, paper_ratio = _ratio(seeded, reference), ratio_for(seeded.readings[0].planned.trial)
        counted = {
            rule: estimate(seeded.readings, rule) for rule in told if any(one.counting(rule) for one in seeded.readings)
        }
        cells.append(MaxLRCell(seeded, estimate(seeded.readings), counted, ratio, paper_ratio))
    return tuple(cells)


def _ratio(seeded: SeededCell, reference: SeededCell | None) -> Ratio | None:
    if reference is None:
        return None
    readings = seed_readings(seeded.readings)
    if reference is seeded:  # Pre-LN's own row: 1 by definition, even where it is censored
        return Ratio(Bounds(1.0, 1.0)) if any(one.bounds for one in readings) else None
    return paired_ratio(readings, seed_readings(reference.readings))


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
        groups=tuple(group for blocks in depths for group in _groups(blocks, columns[blocks])),
        rows=tuple(
            (*key, *(word for blocks in depths for word in _words(row.get(blocks), columns[blocks])))
            for key, row in rows.items()
        ),
        notes=(*_cell_notes(table, several), *_notes(table)),
    )


def _notes(table: MaxLRTable) -> list[str]:
    return [
        *caption.measure(table.readings),
        *caption.counting({rule for cell in table.cells for rule in cell.others}),
        *([caption.NOT_LEARNED] if any(cell.estimate.not_learned for cell in table.cells) else []),
        caption.ramp(table.ramp),
        *caption.intervals([cell.estimate for cell in table.cells]),
        *caption.ratios(
            REFERENCE,
            seeds=any(cell.estimate.planned > 1 for cell in table.cells),
            ours=any(cell.ratio for cell in table.cells),
            paper=any(cell.ratio and cell.paper_ratio is not None for cell in table.cells),
        ),
        *caption.setting(table.sweeps, table.readings),
    ]


def _groups(blocks: int, columns: tuple[str, ...]) -> list[Group]:
    """The strict reading, and the others as a group of their own, which stands below where it does not fit beside."""
    others = tuple(name for name in columns if name.removesuffix(f" {_BRACKETS}") in RULES.values())
    strict = Group(f"{blocks} blocks", columns[: len(columns) - len(others)], f"{2 * blocks} sub-layers")
    return [strict, Group(f"{blocks} blocks, counted otherwise", others)] if others else [strict]


def _columns(cells: Sequence[MaxLRCell]) -> tuple[str, ...]:
    seeds = any(cell.estimate.planned > 1 for cell in cells)
    ratios = any(cell.ratio is not None for cell in cells)
    paper = ratios and any(cell.paper_ratio is not None for cell in cells)
    return (
        *((f"Max LR {_BRACKETS}", "range", "n") if seeds else ("Max LR",)),
        "mode",
        *((f"ratio {_BRACKETS}" if seeds else "ratio",) if ratios else ()),
        *(("paper's ratio",) if paper else ()),
        *((f"{name} {_BRACKETS}" if seeds else name) for rule, name in RULES.items() if _any(cells, rule)),
    )


def _any(cells: Sequence[MaxLRCell], rule: Counting) -> bool:
    return any(rule in cell.others for cell in cells)


def _words(cell: MaxLRCell | None, columns: tuple[str, ...]) -> list[str]:
    if cell is None:
        return ["-"] * len(columns)
    others = {RULES[rule]: other for rule, other in cell.others.items()}
    paper = None if cell.paper_ratio is None else Ratio(Bounds(cell.paper_ratio, cell.paper_ratio))
    words = {
        "Max LR": notation.max_lr(cell.estimate),
        f"Max LR {_BRACKETS}": notation.max_lr_interval(cell.estimate),
        "range": notation.span(cell.estimate),
        "n": notation.seeds(cell.estimate),
        "mode": notation.modes(cell.estimate),
        **{name: notation.max_lr(other) for name, other in others.items()},
        **{f"{name} {_BRACKETS}": notation.max_lr_interval(other) for name, other in others.items()},
        "ratio": notation.ratio(cell.ratio),
        f"ratio {_BRACKETS}": notation.ratio_interval(cell.ratio, cell.estimate.n),
        "paper's ratio": notation.ratio(paper),
    }
    return [words.get(name, "-") for name in columns]


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
