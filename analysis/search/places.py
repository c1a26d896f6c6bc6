"""Where points of a search lie in a plane of two parameters: alpha in units of L, log where searched so."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.search import words
from analysis.search.findings import ALPHA, Search
from keel_lab.spec.search import Parameter
from keel_lab.store.points import Point


def map_axes(search: Search) -> tuple[Parameter, ...]:
    """LR and alpha if both are searched; else the first two ranges that every point has."""
    ranges = [
        one
        for one in search.parameters
        if one.domain.form != "choice" and all(one.name in point.drawn for point in search.points)
    ]
    named = [one for key in ("schedule.lr", ALPHA) for one in ranges if one.key == key]
    chosen = named if len(named) == 2 else ranges[:2]
    return tuple(chosen) if len(chosen) == 2 else ()


def place(point: Point, parameter: Parameter) -> float:
    """Where a point lies on an axis: alpha in units of L; on a log scale what was searched on one."""
    if parameter.key == ALPHA:
        return math.log10(words.alpha_in_units(point) or math.nan)
    drawn = float(point.drawn[parameter.name])
    return math.log10(drawn) if parameter.domain.form == "log_uniform" else drawn


def label(parameter: Parameter) -> str:
    """The name of its axis."""
    if parameter.key == ALPHA:
        return "log10(alpha / L)"
    return f"log10({parameter.name})" if parameter.domain.form == "log_uniform" else parameter.name


def spread(x: Sequence[float], y: Sequence[float]) -> bool:
    """Whether points span an area, so that there is something to interpolate in."""
    import numpy as np

    if len(x) < 4:
        return False
    return bool(np.linalg.matrix_rank(np.column_stack([x, y]) - [x[0], y[0]], tol=1e-6) == 2)
