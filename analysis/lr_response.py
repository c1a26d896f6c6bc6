"""How the final metrics of an architecture respond to its peak LR: the best one, and whether more is always better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.means import mean

Seeds = tuple[int, int]  # init_seed, data_seed


@dataclass(frozen=True)
class Point:
    """What the seeds at one peak LR came to.

    Attributes:
        values: the metric by seeds, of those that finished without diverging.
        lost: whether a seed diverged; such an LR counts as worse than any at which none did.
        complete: whether every seed has a result.
    """

    lr: float
    values: Mapping[Seeds, float]
    lost: bool
    complete: bool


@dataclass(frozen=True)
class Response:
    """The response to the LR.

    Attributes:
        best: the LR of the best mean among those at which no seed diverged; None without one.
        trend: `improves` or `worsens` with every step up in LR, else `not monotone`; None for a single LR, where
            nothing is to compare, and while trials are out.
        noisy: whether a step between two LRs is within its own 90% interval, over pairs of equal seeds, of none.
    """

    best: float | None
    trend: str | None
    noisy: bool

    def words(self) -> str:
        """For a table."""
        if self.trend is None:
            return "-"
        return f"{self.trend} (within noise)" if self.noisy else self.trend


def response(points: Sequence[Point], *, lower_is_better: bool) -> Response:
    """The response over LRs, in any order."""
    ordered = sorted(points, key=lambda point: point.lr)
    costs = [_cost(point, lower_is_better) for point in ordered]
    best = min(zip(costs, ordered, strict=True), key=lambda pair: (pair[0], pair[1].lr), default=None)
    found = best[1].lr if best is not None and math.isfinite(best[0]) else None
    if len(ordered) < 2 or found is None or not all(point.complete for point in ordered):
        return Response(found, None, False)
    ups = [after > before or after == math.inf for before, after in pairwise(costs)]
    downs = [after < before for before, after in pairwise(costs)]
    trend = "improves" if all(downs) else "worsens" if all(ups) else "not monotone"
    return Response(found, trend, any(_alike(first, second) for first, second in pairwise(ordered)))


def _cost(point: Point, lower_is_better: bool) -> float:
    middle = mean(list(point.values.values()), [seeds[1] for seeds in point.values])
    if point.lost or middle is None:
        return math.inf
    return middle.value if lower_is_better else -middle.value


def _alike(first: Point, second: Point) -> bool:
    """Whether the difference over pairs of equal seeds may be none; False where it is not known."""
    if first.lost or second.lost:
        return False
    shared = [seeds for seeds in first.values if seeds in second.values]
    step = mean([second.values[seeds] - first.values[seeds] for seeds in shared], [seeds[1] for seeds in shared])
    return step is not None and step.low is not None and step.high is not None and step.low <= 0 <= step.high
