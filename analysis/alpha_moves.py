"""How the best alpha moves with another axis, such as width: over pairs of lines that differ in that axis alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from analysis.branch_strength import AlphaLine
from analysis.lr_response import Seeds
from analysis.tables.cells import telling_axes
from keel_lab.plan.planned import Label


@dataclass(frozen=True)
class AlphaMove:
    """From one value of an axis to the next, all other axes and the seed equal.

    Attributes:
        factors: best alpha in units of L at the second value over that at the first, one a pair.
        tilts: how much more a doubling of alpha costs at the second value, nats, one a pair: the change of the loss's
            slope over log2 alpha from the smaller of the two best alphas on (what is too small breaks, which would
            drown the rest); NaN where that is the largest.
    """

    axis: str
    first: Label
    second: Label
    factors: tuple[float, ...]
    tilts: tuple[float, ...]

    @property
    def grows(self) -> int:
        """Pairs in which the best alpha is larger at the second value."""
        return sum(factor > 1 for factor in self.factors)

    @property
    def falls(self) -> int:
        """Pairs in which it is smaller."""
        return sum(factor < 1 for factor in self.factors)


def moves(lines: Sequence[AlphaLine]) -> list[AlphaMove]:
    """One for each axis that tells lines apart and each two neighbouring values of it; none without a pair."""
    axes = telling_axes([line.axes for line in lines])
    names = [name for name in dict.fromkeys(name for line in lines for name, _ in line.axes) if name in axes]
    found = []
    for axis in names:
        for first, second in pairwise(_values(axis, lines)):
            pairs = [pair for one in lines for other in lines if (pair := _pair(one, other, axis, first, second))]
            seeds = [(one, other, at) for one, other in pairs for at in _shared(one, other)]
            if seeds:
                factors = tuple(other.of_seeds()[at].units / one.of_seeds()[at].units for one, other, at in seeds)
                tilts = tuple(_change(one, other, at) for one, other, at in seeds)
                found.append(AlphaMove(axis, first, second, factors, tilts))
    return found


def tilt(line: AlphaLine, seeds: Seeds, least: float = 0.0) -> float:
    """Least-squares slope of a seed's final losses over log2 alpha, nats a doubling; NaN for a single alpha.

    Args:
        line: whose losses.
        seeds: which seed's.
        least: smallest alpha that counts.
    """
    points = [(math.log2(row.alpha), row.losses[seeds]) for row in line.rows if row.losses and row.alpha >= least]
    middle, level = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = math.fsum((x - middle) ** 2 for x, _ in points)
    return math.fsum((x - middle) * (y - level) for x, y in points) / spread if spread else math.nan


def _change(one: AlphaLine, other: AlphaLine, seeds: Seeds) -> float:
    least = min(line.of_seeds()[seeds].alpha for line in (one, other))
    return tilt(other, seeds, least) - tilt(one, seeds, least)


def _values(axis: str, lines: Sequence[AlphaLine]) -> list[Label]:
    """Rising if they are numbers, else as they come."""
    found = list(dict.fromkeys(value for line in lines for name, value in line.axes if name == axis))
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
    return sorted(found, key=float) if numbers else found


def _pair(
    one: AlphaLine, other: AlphaLine, axis: str, first: Label, second: Label
) -> tuple[AlphaLine, AlphaLine] | None:
    here, there = dict(one.axes), dict(other.axes)
    if one.architecture != other.architecture or here.pop(axis, None) != first or there.pop(axis, None) != second:
        return None
    return (one, other) if here == there else None


def _shared(one: AlphaLine, other: AlphaLine) -> list[Seeds]:
    there = other.of_seeds()
    return [at for at in one.of_seeds() if at in there]
