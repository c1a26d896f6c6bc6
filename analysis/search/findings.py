"""What the points of a search say: the best of them, measured again with fresh seeds, and what mattered.

The value that a point was chosen for is the luckiest of many: it is shown as such, and never alone where the point was
measured again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from analysis.means import Mean, mean
from analysis.readings import Reading, SweepReadings
from analysis.statistics import Estimate
from analysis.tables import max_lr
from keel_lab.search.best import best_points
from keel_lab.search.cells import joint_parameters
from keel_lab.search.telling import Run, value_of
from keel_lab.settings import RampSchedule
from keel_lab.spec.search import Objective, Parameter, SearchSpec
from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    from keel_lab.store.trials import Trials

EDGE = 0.02  # of a range: a best point nearer to its end says that the range is too short
ALPHA = "options.alpha"  # is told in units of L


@dataclass(frozen=True)
class Measured:
    """An objective of one point, measured again with fresh seeds: a mean, or for Max LR an estimate of the median.

    Attributes:
        lost: seeds that diverged, where divergence is no value.
    """

    mean: Mean | None = None
    max_lr: Estimate | None = None
    lost: int = 0


@dataclass(frozen=True)
class Best:
    """One of the best points.

    Attributes:
        again: by objective; empty if it was not measured again (yet).
        edges: names of parameters that stand at an end of their range, with which end.
    """

    point: Point
    again: Mapping[str, Measured]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Search:
    """One search of a sweep.

    Attributes:
        name: `keel 8 blocks`.
        points: in the order of asking.
        best: the best first; with several objectives the front.
        importance: by objective and parameter, summing to 1; empty where there is too little to say.
    """

    sweep: SweepReadings
    spec: SearchSpec
    name: str
    parameters: tuple[Parameter, ...]
    points: tuple[Point, ...]
    best: tuple[Best, ...]
    importance: Mapping[str, Mapping[str, float]]

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What was searched for."""
        return self.spec.objectives

    def count(self, state: State) -> int:
        """How many points are in a state."""
        return sum(point.state is state for point in self.points)

    @property
    def diverged(self) -> int:
        """Points of which a run lost its level."""
        return sum(bool(point.facts.get("diverged")) for point in self.points)


def is_search(sweep: SweepReadings) -> bool:
    """Whether the sweep is of protocol search."""
    return "search" in sweep.stored.spec


def searches(sweep: SweepReadings, trials: Trials) -> list[Search]:
    """The searches of a sweep, in its order."""
    from keel_lab.spec import SweepSpec

    spec = SweepSpec.from_json(sweep.stored.spec)
    assert spec.search is not None
    parameters = (*joint_parameters(spec), *spec.search.space)
    readings = {one.planned.trial.id: one for one in sweep.readings}
    asked: dict[int, list[Point]] = {}
    fresh = {(point.cell, point.number): point for point in sweep.stored.points if point.fresh}
    for point in sweep.stored.points:
        if not point.fresh:
            asked.setdefault(point.cell, []).append(point)
    found = []
    for points in asked.values():
        used = tuple(one for one in parameters if any(one.name in point.drawn for point in points))
        best = [
            Best(
                point, _again(fresh.get((point.cell, point.number)), spec.search, readings, trials), _edges(point, used)
            )
            for point in _worth_showing(points, fresh, spec.search)
        ]
        importance = _importance(points, spec.search, used)
        found.append(Search(sweep, spec.search, points[0].cell_name, used, tuple(points), tuple(best), importance))
    return found


def _worth_showing(points: Sequence[Point], fresh: Mapping[tuple[int, int], Point], search: SearchSpec) -> list[Point]:
    """The whole front; with one objective those measured again, or the first few."""
    best = best_points(points, search.objectives)
    if len(search.objectives) > 1:
        return best
    again = [point for point in best if (point.cell, point.number) in fresh]
    return again or best[: max(1, search.remeasure.best)]


def _again(
    fresh: Point | None, search: SearchSpec, readings: Mapping[str, Reading], trials: Trials
) -> dict[str, Measured]:
    if fresh is None:
        return {}
    members = [readings[planned.trial.id] for planned in fresh.trials]
    ramps = [one for one in members if isinstance(one.planned.trial.schedule, RampSchedule)]
    rest = [one for one in members if one not in ramps]
    found = {}
    for objective in search.objectives:
        if objective.name == "max_lr":
            found[objective.name] = Measured(max_lr=max_lr.estimate(ramps))
        else:
            found[objective.name] = _mean(objective, rest, search, trials)
    return {name: one for name, one in found.items() if one.mean is not None or one.max_lr is not None or one.lost}


def _mean(objective: Objective, members: Sequence[Reading], search: SearchSpec, trials: Trials) -> Measured:
    values, seeds, lost = [], [], 0
    for one in members:
        if one.result is None:
            continue
        run = Run(one.planned, one.result, partial(trials.curve, one.planned.trial.id))
        value = None if run.diverged else value_of(objective, run, search)
        if value is None:
            lost += 1
        else:
            values.append(value)
            seeds.append(one.planned.trial.data_seed)
    return Measured(mean(values, seeds), lost=lost)


def _edges(point: Point, parameters: Sequence[Parameter]) -> tuple[tuple[str, str], ...]:
    """Ranges near whose end the point lies; of choices between numbers, the smallest and largest."""
    found = []
    for one in parameters:
        if one.name not in point.drawn:
            continue
        value, end = point.drawn[one.name], ""
        if one.domain.form == "choice":
            numbers = [
                each for each in one.domain.values if isinstance(each, int | float) and not isinstance(each, bool)
            ]
            if len(numbers) == len(one.domain.values) > 2:
                end = {max(numbers): "largest", min(numbers): "smallest"}.get(value, "")
        else:
            share = position(one, value, point.trials[0].trial.sublayers)
            end = "lower end" if share < EDGE else "upper end" if share > 1 - EDGE else ""
        if end:
            found.append((one.name, end))
    return tuple(found)


def position(parameter: Parameter, value: float, sublayers: int) -> float:
    """Where a drawn number lies in its range, from 0 to 1, on the range's own scale."""
    low, high = parameter.domain.bounds(sublayers)
    if parameter.domain.form == "log_uniform":
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _importance(
    points: Sequence[Point], search: SearchSpec, parameters: Sequence[Parameter]
) -> dict[str, dict[str, float]]:
    """PED-ANOVA's shares (Watanabe et al. 2023), by Optuna, over complete points; nothing under 8 of them."""
    complete = [point for point in points if point.state is State.COMPLETE and not point.constraint]
    if len(complete) < 8 or len(parameters) < 2:
        return {}
    import optuna

    from keel_lab.search.study import frozen

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=[one.direction for one in search.objectives])
    by_name = {one.name: one for one in parameters}
    for point in complete:
        study.add_trial(frozen(point, by_name))

    found = {}
    for number, objective in enumerate(search.objectives):
        sign = 1.0 if objective.direction == "minimize" else -1.0  # the measure is about what makes it low
        names = [one.name for one in parameters if objective.needs == "schedule" or not one.key.startswith("schedule.")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that low is taken for good, as the sign sees to
            shares = optuna.importance.get_param_importances(study, params=names, target=_target(number, sign))
        found[objective.name] = dict(shares)
    return found


def _target(number: int, sign: float) -> Callable[[Any], float]:
    return lambda trial: sign * float(trial.values[number])
