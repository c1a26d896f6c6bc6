"""The table over alpha, a row an alpha in units of L, and its records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from analysis import notation
from analysis.branch_strength import AlphaLine, AlphaRow, difference, loss
from analysis.intervals import LEVEL
from analysis.means import Mean
from analysis.tables import caption
from analysis.tables.cells import Axes, axes_text, lacking, telling_axes
from analysis.tables.gradient_flow import branch_to_stream
from analysis.tables.layout import Group, Table
from keel_lab.spec.label import label_text

_BRACKETS = f"[{LEVEL:.0%} interval]"
_LOSS, _BEHIND = f"loss at best LR {_BRACKETS}", f"above alpha=L {_BRACKETS}"


def by_alpha(lines: Sequence[AlphaLine], names: str) -> Table:
    """A row an alpha: what it tolerates, what it buys, how strong its branches are."""
    rows = [row for line in lines for row in line.rows]
    telling = telling_axes([line.axes for line in lines])
    ramped, gridded = any(row.max_lr for row in rows), any(row.cells for row in rows)
    probed = any(row.flow for row in rows)
    groups = (
        *((Group("ramp", (f"Max LR {_BRACKETS}", "range", "n", "mode")),) if ramped else ()),
        *((Group("grid", ("best LR", _LOSS, _BEHIND)),) if gridded else ()),
        *((Group("branch / stream", ("init", "end")),) if probed else ()),
    )
    return Table(
        title=f"Alpha in units of L: {names}",
        stub=("architecture", *(("axes",) if telling else ()), "alpha", "alpha / L"),
        groups=groups,
        rows=tuple(
            (
                row.trial.architecture,
                *((words_of(line.axes, telling),) if telling else ()),
                label(row),
                notation.digits(row.units),
                *(_ramp(row) if ramped else ()),
                *(_grid(row, _reference(lines, line)) if gridded else ()),
                *(_flow(row) if probed else ()),
            )
            for line in lines
            for row in line.rows
        ),
        notes=tuple(_notes(rows, ramped, gridded, probed)),
    )


def records(lines: Sequence[AlphaLine]) -> list[dict[str, Any]]:
    """A flat record a row; None where there is none."""
    return [_record(row, _reference(lines, line), row is line.best) for line in lines for row in line.rows]


def _record(row: AlphaRow, reference: AlphaRow | None, best: bool) -> dict[str, Any]:
    above = None if reference is None or row is reference else difference(row, reference)
    strengths = _strengths(row)
    return {
        "architecture": row.trial.architecture,
        "axes": dict(row.axes),
        "blocks": row.trial.blocks,
        "sublayers": row.trial.sublayers,
        "label": row.label,
        "alpha": row.alpha,
        "alpha_in_units_of_L": row.units,
        "max_lr_median": None if row.max_lr is None else row.max_lr.median,
        "max_lr_kind": None if row.max_lr is None else row.max_lr.kind,
        "max_lr_low": None if row.max_lr is None or row.max_lr.interval is None else row.max_lr.interval.low,
        "max_lr_high": None if row.max_lr is None or row.max_lr.interval is None else row.max_lr.interval.high,
        "max_lr_n": None if row.max_lr is None else row.max_lr.n,
        "best_lr": None if row.best is None else row.best.lr,
        "best_lr_is": {">= ": "largest tried", "<= ": "smallest tried"}.get(row.edge, "inside"),
        **_mean("loss", loss(row)),
        **_mean("above_alpha_L", above),
        "lowest_of_its_line": best,
        "branch_to_stream_init": strengths[0],
        "branch_to_stream_end": strengths[1],
    }


def _mean(name: str, value: Mean | None) -> dict[str, Any]:
    ends = (None, None, None, 0) if value is None else (value.value, value.low, value.high, value.n)
    return dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), ends, strict=True))


def _reference(lines: Sequence[AlphaLine], line: AlphaLine) -> AlphaRow | None:
    """The row with alpha = L that a line is compared with: of the first line that has the same model and one."""
    same = [one for one in lines if one.rows[0].trial.model == line.rows[0].trial.model]
    return next((row for one in same for row in one.rows if math.isclose(row.units, 1) and row.losses), None)


def words_of(axes: Axes, telling: set[str]) -> str:
    """The axes that tell rows apart; - without any."""
    return axes_text(tuple(axis for axis in axes if axis[0] in telling)) or "-"


def label(row: AlphaRow) -> str:
    """Its alpha, or c, as the sweep has it."""
    return row.label if "alpha" in row.trial.options else f"c = {row.label}"


def _ramp(row: AlphaRow) -> tuple[str, ...]:
    if row.max_lr is None:
        return "-", "-", "-", "-"
    value = row.max_lr
    return notation.max_lr_interval(value), notation.span(value), notation.seeds(value), notation.modes(value)


def _grid(row: AlphaRow, reference: AlphaRow | None) -> tuple[str, ...]:
    if row.best is None:
        return "-", _lost(row).strip() or "-", "-"
    above = "-" if reference is None else "0" if row is reference else _signed(difference(row, reference))
    return f"{row.edge}{notation.reading(row.best.lr)}", f"{number(loss(row))}{_lost(row)}", above


def _lost(row: AlphaRow) -> str:
    """Seeds diverged at some LR, and trials that are out."""
    diverged = [f"{cell.diverged} diverged at {notation.reading(cell.lr)}" for cell in row.cells if cell.diverged]
    out = lacking([one for cell in row.cells for one in cell.readings])
    return f" ({'; '.join((*diverged, *out))})" if diverged or out else ""


def _flow(row: AlphaRow) -> tuple[str, ...]:
    return tuple("-" if value is None else notation.digits(value) for value in _strengths(row))


def _strengths(row: AlphaRow) -> tuple[float | None, float | None]:
    """Of the initial model and after the last update; None where it was not measured."""
    steps = row.best.readings[0].planned.trial.schedule.steps if row.best is not None else 0
    found = {} if row.flow is None else {one.step: branch_to_stream(one) for one in row.flow.moments}
    return found.get(0), found.get(steps)


def number(value: Mean | None) -> str:
    """A mean loss with its interval and n; - without one."""
    if value is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{value.low:.3f}, {value.high:.3f}]"
    return f"{value.value:.3f}{ends} (n = {value.n})"


def _signed(value: Mean | None) -> str:
    if value is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{value.low:+.3f}, {value.high:+.3f}]"
    return f"{value.value:+.3f}{ends}"


def _notes(rows: Sequence[AlphaRow], ramped: bool, gridded: bool, probed: bool) -> list[str]:
    sublayers = sorted({row.trial.sublayers for row in rows})
    notes = [
        f"alpha: factor on the residual stream; of pre_ln_scaled, whose branch is scaled by c, it is 1/c. "
        f"L = {', '.join(map(str, sublayers))} sub-layers.",
    ]
    if ramped:
        estimates = [row.max_lr for row in rows if row.max_lr is not None]
        notes += caption.intervals(estimates)
    if gridded:
        lrs = sorted({cell.lr for row in rows for cell in row.cells})
        tried = ", ".join(label_text(float(f"{lr:.3g}")) for lr in lrs)
        choice = (
            f"best LR: of {tried}, by the mean validation loss, nats a token, among those where no seed diverged; >= "
            "and <= mark the largest and the smallest tried: a bound."
            if len(lrs) > 1
            else f"One peak LR, {tried}: nothing says that each alpha is best at it. Losses in nats a token."
        )
        notes.append(
            f"{choice} Intervals are Student's t over data seeds. above alpha=L: the difference at equal seeds, each "
            "at its own best LR, from the first row with alpha = L of the same shape."
        )
    if probed:
        notes.append(
            "branch / stream: rms of what a branch adds over that of the scaled stream beside it, median over "
            "sub-layers, at the best LR; one seed, one batch of held-out sequences, no interval."
        )
    return notes
