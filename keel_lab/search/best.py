"""The best of told points: by value with one objective, the front that nothing beats with several."""

from __future__ import annotations

from collections.abc import Sequence

from keel_lab.spec.search import Objective
from keel_lab.store.points import Point, State


def best_points(points: Sequence[Point], objectives: Sequence[Objective]) -> list[Point]:
    """Complete, feasible points, the best first: with several objectives the Pareto front, in order of the first one.

    Points that asked for the very same trials count once.
    """
    distinct: dict[tuple[str, ...], Point] = {}
    for point in points:
        if point.state is State.COMPLETE and not point.constraint:
            distinct.setdefault(tuple(planned.trial.id for planned in point.trials), point)
    costs = {point.number: _costs(point, objectives) for point in distinct.values()}
    front = [
        point
        for point in distinct.values()
        if len(objectives) == 1 or not any(_beats(other, costs[point.number]) for other in costs.values())
    ]
    return sorted(front, key=lambda point: (costs[point.number], point.number))


def _costs(point: Point, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Its values, each so that less is better."""
    assert point.told is not None
    signs = [1.0 if one.direction == "minimize" else -1.0 for one in objectives]
    return tuple(sign * value for sign, value in zip(signs, point.told, strict=True))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
