"""The tables on the best alpha: a row a shape with its best, and a row an axis that may move it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from analysis import notation
from analysis.alpha_moves import AlphaMove
from analysis.branch_strength import AlphaLine, loss
from analysis.intervals import LEVEL
from analysis.tables.branch_strength import label, number, words_of
from analysis.tables.cells import telling_axes
from analysis.tables.layout import Group, Table
from keel_lab.spec.label import label_text

_SHAPE = ("best alpha", "alpha / L", "loss there", "not told apart from it", "each seed's best")
_TILT = "a doubling of alpha costs more by [range]"


def by_shape(lines: Sequence[AlphaLine], names: str) -> Table | None:
    """A row an architecture and shape: its best alpha, and which others are not told apart from it."""
    told = [line for line in lines if line.best is not None and len(line.rows) > 1]
    if not told:
        return None
    telling = telling_axes([line.axes for line in lines])
    return Table(
        title=f"Best alpha by final loss: {names}",
        stub=("architecture", *(("axes",) if telling else ())),
        groups=(Group("", ("best alpha", "alpha / L", "loss there", "not told apart from it", "each seed's best")),),
        rows=tuple(
            (line.architecture, *((words_of(line.axes, telling),) if telling else ()), *_best(line)) for line in told
        ),
        notes=(
            f"Best by the mean loss over seeds, each alpha at its own best LR. Not told apart: the {LEVEL:.0%} "
            "interval of the paired difference from the best holds 0 (or no interval can be had). The smallest of "
            "several noisy means flatters itself; read the alphas beside it.",
        ),
    )


def by_axis(found: Sequence[AlphaMove], names: str) -> Table | None:
    """A row an axis and two values of it: whether the best alpha grows from the one to the other."""
    if not found:
        return None
    return Table(
        title=f"How the best alpha moves: {names}",
        stub=("axis", "from", "to"),
        groups=(Group("best alpha / L", ("pairs", "grows", "same", "falls", "median factor")), Group("", (_TILT,))),
        rows=tuple(
            (
                one.axis,
                label_text(one.first),
                label_text(one.second),
                *map(str, (len(one.factors), one.grows, len(one.factors) - one.grows - one.falls, one.falls)),
                notation.digits(median(one.factors)),
                _spread([value for value in one.tilts if not math.isnan(value)]),
            )
            for one in found
        ),
        notes=(
            "Over pairs of one shape and seed that differ in this axis alone, each alpha at its own best LR.",
            "a doubling of alpha costs more by: change of the loss's slope over log2 alpha, nats, from the smaller of "
            "the two best alphas on; positive: larger alphas hurt more at the second value. Mean and range over pairs; "
            "they share their data, so there is no interval.",
        ),
    )


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):+.4f} [{min(values):+.4f}, {max(values):+.4f}]" if values else "-"


def _best(line: AlphaLine) -> tuple[str, ...]:
    best = line.best
    assert best is not None
    others = [label(row) for row in line.alike() if row is not best]
    seeds = [label(row) for row in line.of_seeds().values()]
    ends = {id(line.rows[0]): "<= ", id(line.rows[-1]): ">= "}
    return (
        f"{ends.get(id(best), '')}{label(best)}",
        notation.digits(best.units),
        number(loss(best)),
        ", ".join(others) or "none",
        ", ".join(seeds) or "-",
    )
