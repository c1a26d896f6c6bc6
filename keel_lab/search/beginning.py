"""The points that a search asks first: as given in its file, or the best of another sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keel_lab.detect.max_lr import max_lr
from keel_lab.errors import UsageError
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.result import Outcome, TrialResult
from keel_lab.search.cells import Points, SearchCell, from_file
from keel_lab.settings import GridSchedule, RampSchedule
from keel_lab.spec.search import Objective, Parameter

if TYPE_CHECKING:
    from keel_lab.store.root import Root
    from keel_lab.store.stored_sweep import StoredSweep


def beginning(points: Points, cell: SearchCell) -> list[dict[str, Any]]:
    """The first points of a search, as numbers by parameter name.

    A point that names another architecture or depth than the cell's is for another search.

    Raises:
        UsageError: if a given point lies outside the space.
    """
    warm = points.search.warm_start
    found = []
    for given in (*warm.points, *(warm.drawn or ())):
        drawn = _point(points, cell, given)
        if drawn is not None and drawn not in found:
            found.append(drawn)
    return found


def _point(points: Points, cell: SearchCell, given: Mapping[str, Any]) -> dict[str, Any] | None:
    fixed = {key.split(".")[-1]: value for key, value in cell.fixed.items()}
    if any(name in fixed and fixed[name] != value for name, value in given.items()):
        return None
    drawn: dict[str, Any] = {}
    for one in points.parameters(cell, {one.name: given.get(one.name, one.domain.values[0]) for one in cell.joint}):
        if one.name not in given:
            continue
        if one.domain.form == "power_of_L" and "blocks" not in {**cell.fixed, **given}:
            raise UsageError(
                f"search.warm_start.points: found {one.name}: {given[one.name]} without the depth, searched as well; "
                "give blocks beside it"
            )
        try:
            drawn[one.name] = from_file(one.domain, given[one.name], points.sublayers(cell, drawn))
        except ValueError as error:
            raise UsageError(
                f"search.warm_start.points: found {one.name}: {given[one.name]}; {error}: widen the space, or remove it"
            ) from error
    return drawn


def drawn_before(stored: StoredSweep | None, sweep: str) -> tuple[Mapping[str, Any], ...] | None:
    """The points that a stored search took from another sweep; None if it is not stored, or took them from none."""
    warm = {} if stored is None else stored.spec.get("search", {}).get("warm_start", {})
    drawn = warm.get("drawn") if warm.get("sweep") == sweep else None
    return None if drawn is None else tuple(drawn)


def best_of(sweep: str, root: Root, points: Points) -> tuple[Mapping[str, Any], ...]:
    """The best distinct cells of a stored sweep that lie in a search's space, as points in the words of a sweep file.

    They are ranked by the search's first objective, as far as the sweep's results tell it.

    Raises:
        UsageError: if there is no such sweep, or nothing of it lies in the space.
    """
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.store.trials import Trials

    stored = Sweeps(root).load(sweep)
    results = Trials(root).results([planned.trial.id for planned in stored.trials])
    objective = points.search.objectives[0]
    ranked: dict[str, tuple[list[float], dict[str, Any]]] = {}
    for planned in stored.trials:
        result = results.get(planned.trial.id)
        value = None if result is None or planned.role is not Role.TRIAL else _value(objective, planned, result)
        given = None if value is None else _words(planned, points)
        if given is not None and value is not None:
            ranked.setdefault(str(planned.cell), ([], given))[0].append(value)
    sign = 1.0 if objective.direction == "minimize" else -1.0
    order = sorted(ranked.values(), key=lambda one: sign * sum(one[0]) / len(one[0]))
    if not order:
        raise UsageError(
            f"search.warm_start.from: found {sweep}; none of its finished trials has {objective.name} and lies in the "
            "space: widen the space, or remove it"
        )
    return tuple(given for _, given in order[: points.search.warm_start.best])


def _value(objective: Objective, planned: PlannedTrial, result: TrialResult) -> float | None:
    if isinstance(planned.trial.schedule, RampSchedule):
        return max_lr(result.verdict).lr if objective.name == "max_lr" else None
    return result.metrics.get(objective.name) if result.outcome is Outcome.COMPLETED else None


def _words(planned: PlannedTrial, points: Points) -> dict[str, Any] | None:
    """The point that a trial is, or None if no search of the sweep could have asked it."""
    trial = planned.trial
    here = {"architecture": trial.architecture, "blocks": trial.blocks}
    for cell in points.cells:
        given: dict[str, Any] = dict(here)
        if any(cell.fixed.get(key, value) != value for key, value in here.items()):
            continue
        if any(one.name in here and here[one.name] not in one.domain.values for one in cell.joint):
            continue
        for one in points.parameters(cell, given):
            value = _of_trial(planned, one)
            if value is not None and one.name not in given:
                given[one.name] = value
        try:
            if _point(points, cell, given):
                return given
        except UsageError:  # outside the space: not such a point
            continue
    return None


def _of_trial(planned: PlannedTrial, parameter: Parameter) -> Any:
    section, tail = parameter.key.split(".", 1) if "." in parameter.key else ("", parameter.key)
    trial = planned.trial
    if section == "options":
        return trial.options.get(tail) if parameter.domain.form != "choice" else planned.labels.get(tail)
    if section == "schedule" and isinstance(trial.schedule, GridSchedule):
        return getattr(trial.schedule, tail, None)
    return getattr({"model": trial.model, "train": trial.train}.get(section), tail, None)
