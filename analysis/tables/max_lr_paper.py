"""Table 1 as the paper typesets it: architectures as rows, depths as columns, one Max LR a cell, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import notation
from analysis.statistics import Estimate
from analysis.tables import max_lr
from analysis.tables.cells import axes_text, telling_axes
from analysis.tables.layout import Group, Table
from analysis.tables.max_lr import MaxLRCell, MaxLRTable

TITLES = {
    "post_ln": "Post-LN",
    "deepnorm": "DeepNorm",
    "hybridnorm": "HybridNorm",
    "mix_ln": "Mix-LN",
    "pre_ln": "Pre-LN",
    "keel": "Keel",
    "keel_attempt1": "Keel, attempt 1",
    "keel_attempt2": "Keel, attempt 2",
    "keel_attempt3": "Keel, attempt 3",
    "hybridnorm_star": "HybridNorm*",
    "admin": "Admin",
    "pre_ln_scaled": "Pre-LN scaled",
    "peri_ln": "Peri-LN",
    "sandwich_ln": "Sandwich-LN",
    "layernorm_scaling": "LayerNorm Scaling",
    "residual_dual": "ResiDual",
    "rezero": "ReZero",
    "highway": "Highway",
}
_RANGE = " range is "
_ONLY_IN_FULL = ("ratio:", "paper's ratio:", "modes 1+2+3:", "irreversible:")


def layout(table: MaxLRTable) -> Table:
    """The table in words; what its full form says below it stands below this one, too."""
    full = max_lr.layout(table)
    several = len(table.sweeps) > 1
    telling = telling_axes([cell.seeded.cell.axes for cell in table.cells])
    depths = sorted({cell.seeded.cell.blocks for cell in table.cells})
    rows: dict[tuple[str, ...], dict[int, MaxLRCell]] = {}
    for cell in table.cells:
        where = cell.seeded.cell
        axes = axes_text(tuple(axis for axis in where.axes if axis[0] in telling))
        name = TITLES.get(where.architecture, where.architecture)
        key = (name, *((axes,) if telling else ()), *((cell.seeded.sweep,) if several else ()))
        rows.setdefault(key, {})[where.blocks] = cell
    return Table(
        title=full.title,
        stub=("Architecture", *(("Axes",) if telling else ()), *(("Sweep",) if several else ())),
        groups=(Group("Max LR at a depth of", tuple(f"{2 * blocks} sub-layers" for blocks in depths)),),
        rows=tuple((*key, *(_words(row.get(blocks), table.cells) for blocks in depths)) for key, row in rows.items()),
        notes=(*_seeds(table.cells), *_notes(full)),
    )


def _notes(full: Table) -> list[str]:
    """The notes of the full form, without those on columns that this form lacks."""
    kept = [note for note in full.notes if not note.startswith(_ONLY_IN_FULL)]
    return [note.partition(_RANGE)[0] for note in kept]


def _words(cell: MaxLRCell | None, cells: Sequence[MaxLRCell]) -> str:
    if cell is None:
        return "-"
    seeded = any(one.estimate.planned > 1 for one in cells)
    text = notation.max_lr_interval(cell.estimate) if seeded else notation.max_lr(cell.estimate)
    odd = cell.estimate.median is not None and cell.estimate.n != _usual(cells)
    return f"{text} (n = {notation.seeds(cell.estimate)})" if odd else text


def _seeds(cells: Sequence[MaxLRCell]) -> list[str]:
    usual = _usual(cells)
    return [f"n = {usual} in each cell that does not say otherwise."] if usual > 1 else []


def _usual(cells: Sequence[MaxLRCell]) -> int:
    """How many seeds most cells stand on."""
    counts = [estimate.n for estimate in _measured(cells)]
    return max(counts, key=counts.count, default=0)


def _measured(cells: Sequence[MaxLRCell]) -> list[Estimate]:
    return [cell.estimate for cell in cells if cell.estimate.median is not None]
