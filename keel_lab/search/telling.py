"""From the results of a point's trials to what Optuna is told of it (DESIGN section 7).

One objective on loss: a point of which a run diverged is told PRUNED, with its loss as far as it came in good order:
Optuna then knows that it is worse than every run that ended, and better the later it broke. Objective max_lr:
divergence is the value, told COMPLETE; a ramp that reached its peak is told the peak and marked as censored; one that
never learned has no Max LR and is told PRUNED. Several objectives: every point is told COMPLETE, and divergence is a
constraint that it breaks by the share of the schedule it did not survive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keel_lab.curve import Curve
from keel_lab.detect.max_lr import MaxLRKind, max_lr
from keel_lab.detect.verdict import Mode, Status
from keel_lab.errors import UsageError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.search.rungs import rung_losses
from keel_lab.settings import RampSchedule
from keel_lab.spec.search import OBJECTIVES, Objective, SearchSpec
from keel_lab.store.points import State

FLOPS = 6  # of a parameter and token, forward and backward (Kaplan et al., arXiv 2001.08361, section 2.1)


@dataclass(frozen=True)
class Told:
    """What is told of a point; see `store.points.Point` for the fields."""

    state: State
    values: tuple[float, ...] | None = None
    rungs: Mapping[int, float] = field(default_factory=dict)
    constraint: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One finished trial of a point, with its curve if that is needed."""

    planned: PlannedTrial
    result: TrialResult
    curve: Callable[[], Curve]

    @property
    def diverged(self) -> bool:
        """Whether a level was lost. One that never learned came to its end, and its loss says how bad that is."""
        verdict = self.result.verdict
        return verdict.status is Status.DIVERGED and verdict.mode is not Mode.STAGNATION

    @property
    def ramps(self) -> bool:
        """Whether its LR ramps."""
        return isinstance(self.planned.trial.schedule, RampSchedule)


def tell(search: SearchSpec, runs: Sequence[Run]) -> Told:
    """What is told of a point whose trials all have a result.

    Raises:
        UsageError: if the trials do not report an objective.
    """
    scheduled = [run for run in runs if not run.ramps]
    lost = [run for run in scheduled if run.diverged]
    rungs = _mean_rungs([_rungs(run, search) for run in scheduled])
    facts: dict[str, Any] = {"diverged": len(lost)} if lost else {}
    if lost:
        facts["modes"] = sorted({str(run.result.verdict.mode) for run in lost})
    values: list[float | None] = []
    for objective in search.objectives:
        value, said = _value(objective, [run for run in runs if run.ramps == (objective.needs == "ramp")], search)
        values.append(value)
        facts |= said
    if len(search.objectives) > 1:
        broken = max((_not_survived(run) for run in lost), default=0.0)
        unknown = any(value is None for value in values)
        told = tuple(
            _stand_in(objective, rungs) if value is None else value
            for objective, value in zip(search.objectives, values, strict=True)
        )
        return Told(State.COMPLETE, told, rungs, max(broken, 1.0 if unknown else 0.0), facts)
    if values[0] is None:
        return Told(State.PRUNED, None, rungs, None, facts)
    return Told(State.COMPLETE, (values[0],), rungs, None, facts)


def _value(objective: Objective, runs: Sequence[Run], search: SearchSpec) -> tuple[float | None, dict[str, Any]]:
    """The objective's value over the seeds, None if it has none; and what a person should know of it."""
    if objective.name == "max_lr":
        return _max_lr(runs)
    if any(run.diverged for run in runs) and objective.name != "cost":
        return None, {}
    found = [value_of(objective, run, search) for run in runs]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return None, {"why": f"{objective.name} not reached"}
    return sum(known) / len(known), {}


def value_of(objective: Objective, run: Run, search: SearchSpec) -> float | None:
    """The value of an objective, other than max_lr, for one run that did not diverge; None if it has none.

    Raises:
        UsageError: if the run did not report it.
    """
    if objective.name == "final_loss":
        rungs = _rungs(run, search)
        return rungs[max(rungs)] if rungs else None
    if objective.name == "cost":
        return float(FLOPS * run.planned.parameters * run.result.steps * run.planned.trial.tokens_per_step)
    if objective.name == "tokens_to_loss":
        rungs = _rungs(run, search, fine=True)
        assert objective.target is not None
        return next((float(tokens) for tokens, loss in rungs.items() if loss <= objective.target), None)
    if objective.name not in run.result.metrics:
        if objective.name in run.result.execution.get("nonfinite_metrics", ()):
            return None
        reported = ", ".join([*run.result.metrics]) or "none"
        raise UsageError(
            f"search.objectives: found {objective.name}; the trials report no such metric: {run.planned.name} reported "
            f"{reported}; objectives are these, or {', '.join(sorted(set(OBJECTIVES) - {'val_loss'}))}"
        )
    return float(run.result.metrics[objective.name])


def _max_lr(runs: Sequence[Run]) -> tuple[float | None, dict[str, Any]]:
    """The geometric mean over seeds; with a censored one among them it is a lower bound, and says so."""
    readings = [max_lr(run.result.verdict) for run in runs]
    unknown = [one for one in readings if one.lr is None]
    if unknown:
        return None, {"why": unknown[0].text(str)}
    logs = [math.log(one.lr) for one in readings if one.lr]
    censored = sum(one.kind is MaxLRKind.CENSORED for one in readings)
    return math.exp(sum(logs) / len(logs)), {"censored": censored} if censored else {}


def _rungs(run: Run, search: SearchSpec, *, fine: bool = False) -> dict[int, float]:
    verdict = run.result.verdict
    end = (verdict.last_good_step or 0) if run.diverged else None
    rungs = run.planned.trial.schedule.steps if fine else search.rungs
    return rung_losses(run.curve().steps, run.planned.trial, rungs, run.result.data.get("unigram_entropy"), end)


def _mean_rungs(found: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean over seeds at each rung that all of them reached."""
    shared = set.intersection(*(set(one) for one in found)) if found else set()
    return {tokens: sum(one[tokens] for one in found) / len(found) for tokens in sorted(shared)}


def _not_survived(run: Run) -> float:
    """The share of its schedule that a diverged run was not good for, above 0."""
    good, steps = run.result.verdict.last_good_step or 0, run.planned.trial.schedule.steps
    return max(1 / steps, 1 - good / steps)


def _stand_in(objective: Objective, rungs: Mapping[int, float]) -> float:
    """A value for an objective that a point has none of: it counts for nothing, since the constraint is broken."""
    if objective.name == "max_lr":
        return 0.0
    return rungs[max(rungs)] if rungs and objective.name in ("val_loss", "final_loss") else 0.0
