"""The best of told points: by value with one objective, the front that nothing beats with several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keel_lab.spec.search import Objective
from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    from keel_lab.store.stored_sweep import StoredSweep


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


def facts(sweep: StoredSweep) -> dict[str, float]:
    """What a tracker shows of a search: how many points, and the best of each objective among feasible ones.

    As it was found, which is the luckiest of many, and as its point was measured again with fresh seeds.
    """
    search = sweep.spec.get("search")
    if search is None:
        return {}
    objectives = [Objective(**one) for one in search["objectives"]]
    points = [point for point in sweep.points if not point.fresh]
    found = {"points": float(len(points)), "pruned": float(sum(point.state is State.PRUNED for point in points))}
    told = {
        (point.cell, point.number): point.told for point in points if point.told is not None and not point.constraint
    }
    again = {(point.cell, point.number): point.told for point in sweep.points if point.fresh}
    for number, objective in enumerate(objectives if told else ()):
        best = min if objective.direction == "minimize" else max
        where = best(told, key=lambda place: told[place][number])
        found[f"best_as_found/{objective.name}"] = told[where][number]
        if fresh := again.get(where):
            found[f"best_measured_again/{objective.name}"] = fresh[number]
    return found


def _costs(point: Point, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Its values, each so that less is better."""
    assert point.told is not None
    signs = [1.0 if one.direction == "minimize" else -1.0 for one in objectives]
    return tuple(sign * value for sign, value in zip(signs, point.told, strict=True))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
