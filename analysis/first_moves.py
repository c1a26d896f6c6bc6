"""What moved first: when each measurement inside the model left what it was used to, before or after the loss did.

On a ramp nearly everything drifts with the LR, so a fixed level would be left by all at once. A measurement has moved
when it is beyond both its level and its own drift, on the same side: a rise that goes on as before has not moved, nor
has one that slows down. Both are taken from the first half of the window: the median, and the line through the logs by
Theil and Sen (the median slope over all pairs of steps), each with `MADS` times the median absolute deviation from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from keel_lab.diagnostics import Window

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BEFORE, AFTER = 200, 50  # steps of the window on either side of the onset
MADS = 6.0  # about four standard deviations
FACTOR = 1.25  # less is no move, however quiet the baseline
HELD = 5  # steps in a row: outside to have left, inside to have come back
LEAST_BASELINE = 20  # steps

Direction = Literal["up", "down"]


@dataclass(frozen=True)
class Departure:
    """One measurement that left its baseline and stayed away, until the onset or, if it left later, the window's end.

    Attributes:
        step: the first of the steps outside.
        value: the median of the first `HELD` steps outside; inf where they are not finite.
        factor: the same over its baseline's drift.
    """

    measure: str
    place: str
    step: int
    direction: Direction
    value: float
    factor: float


@dataclass(frozen=True)
class FirstMove:
    """The earliest departure of a measure, and how many of its places had moved by the onset (or the window's end)."""

    departure: Departure
    moved: int
    places: int


def window_of(onset: int | None, steps: int) -> Window:
    """The window to look at: around the onset, or the last steps of a run of `steps` steps without one."""
    if onset is None:
        return Window(max(1, steps - BEFORE - AFTER + 1), steps)
    return Window(max(1, onset - BEFORE), min(steps, onset + AFTER))


def baseline_steps(steps: Sequence[int], onset: int | None) -> int:
    """How many of the window's first steps make the baseline: half of them, all before the onset."""
    return sum(step < onset for step in steps[: len(steps) // 2]) if onset is not None else len(steps) // 2


def departures(
    measure: str,
    places: Sequence[str],
    values: Sequence[Sequence[float]],
    steps: Sequence[int],
    onset: int | None,
    least: float = 0.0,
) -> list[Departure]:
    """Those places of one measure that moved, earliest first.

    Args:
        measure: its name.
        places: of the columns.
        values: a row a step, a column a place; positive where they are meaningful.
        steps: of the rows.
        onset: the first bad step of the loss, or None.
        least: values up to this one do not matter: a rise that stays below and a fall from below are no moves.

    Returns:
        The departures; none if the baseline has under `LEAST_BASELINE` finite, positive values.
    """
    import numpy as np

    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(values, dtype=np.float64).reshape(len(steps), len(places)))
    for column, place in enumerate(places):
        left = _left(logs[:, column], steps, onset, math.log(least) if least > 0 else -math.inf)
        if left is not None:
            at, direction, value, factor = left
            found.append(Departure(measure, place, steps[at], direction, value, factor))
    return sorted(found, key=lambda one: one.step)


def first_moves(
    found: Mapping[str, Sequence[Departure]], places: Mapping[str, int], onset: int | None
) -> list[FirstMove]:
    """The earliest departure of each measure that has one, in the order of their steps."""
    moves = [
        FirstMove(ones[0], sum(onset is None or one.step < onset for one in ones), places[measure])
        for measure, ones in found.items()
        if ones
    ]
    return sorted(moves, key=lambda move: move.departure.step)


def before(onset: int | None, moves: Iterable[FirstMove]) -> list[FirstMove]:
    """Those that came before the loss left its level; none where it never did."""
    return [move for move in moves if onset is not None and move.departure.step < onset]


def _left(
    logs: npt.NDArray[np.float64], steps: Sequence[int], onset: int | None, matters: float
) -> tuple[int, Direction, float, float] | None:
    import numpy as np

    n = baseline_steps(steps, onset)
    usable = np.flatnonzero(np.isfinite(logs[:n]))
    if len(usable) < LEAST_BASELINE:
        return None
    t = np.asarray(steps, dtype=np.float64)
    level, width = _median_and_mad(logs[usable])
    slope, intercept = _line(t[usable], logs[usable])
    drift = intercept + slope * t
    _, drift_width = _median_and_mad((logs - drift)[usable])
    least = math.log(FACTOR)
    wide, drift_wide = max(MADS * width, least), max(MADS * drift_width, least)
    lost = np.isnan(logs) | np.isposinf(logs)  # a value that is not finite is beyond any
    up = lost | ((logs > np.maximum(level + wide, drift + drift_wide)) & (logs > matters))
    down = ~lost & (logs < np.minimum(level - wide, drift - drift_wide)) & (level > matters)
    sides: list[tuple[int, Direction]] = []
    for direction, outside in (("up", up), ("down", down)):
        at = _stays(outside, n, steps, onset)
        if at is not None:
            sides.append((at, direction))  # type: ignore[arg-type]
    if not sides:
        return None
    at, direction = min(sides)
    held = np.where(np.isnan(logs), np.inf, logs)[at : at + HELD]
    with np.errstate(over="ignore"):
        return at, direction, float(np.exp(np.median(held))), float(np.exp(np.median(held - drift[at : at + HELD])))


def _stays(outside: npt.NDArray[np.bool_], n: int, steps: Sequence[int], onset: int | None) -> int | None:
    """Index from which on it is outside without coming back, until the onset or, if it left later, the end."""
    left: int | None = None
    run = 0  # steps in a row on the other side
    for i in range(n, len(outside)):
        if left is not None and steps[i] == onset:
            return left
        run = run + 1 if outside[i] == (left is None) else 0
        if run == HELD:
            left = i - HELD + 1 if left is None else None
            run = 0
    return left


def _median_and_mad(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    import numpy as np

    median = float(np.median(values))
    return median, float(np.median(np.abs(values - median)))


def _line(t: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Slope and intercept by Theil and Sen."""
    import numpy as np

    early, late = np.triu_indices(len(t), 1)
    slope = float(np.median((y[late] - y[early]) / (t[late] - t[early])))
    return slope, float(np.median(y - slope * t))
