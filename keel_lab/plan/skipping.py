"""Which trials of a grid need not run: those at a higher LR than one of their kind that diverged (DESIGN section 7).

Such a trial is missing, not diverged, and whoever shows it says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from keel_lab.detect.verdict import Status, Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.settings import GridSchedule


def family_of(planned: PlannedTrial) -> Hashable:
    """What the trials of a grid that differ in nothing but their LR have in common; a trial of a ramp is alone."""
    trial, schedule = planned.trial, planned.trial.schedule
    if not isinstance(schedule, GridSchedule):
        return trial.id
    shared = schedule.model_copy(update={"lr": 1.0, "final_lr": 0.0})
    model = (trial.architecture, tuple(sorted(trial.options.items())), trial.blocks, trial.model, trial.data)
    return (trial.trainer, trial.numerics, *model, trial.train, shared, trial.init_seed, trial.data_seed)


def peak_of(planned: PlannedTrial) -> float:
    """The LR of a grid trial; 0 for others, which nothing is above."""
    schedule = planned.trial.schedule
    return schedule.lr if isinstance(schedule, GridSchedule) else 0.0


def above_divergence(trials: Iterable[PlannedTrial], verdicts: Mapping[str, Verdict]) -> frozenset[str]:
    """The ids of trials without a verdict whose LR is above that of a diverged trial of their family."""
    planned = list(trials)
    lowest: dict[Hashable, float] = {}
    for one in planned:
        verdict = verdicts.get(one.trial.id)
        if verdict is not None and verdict.status is Status.DIVERGED:
            lowest[family_of(one)] = min(peak_of(one), lowest.get(family_of(one), float("inf")))
    return frozenset(
        one.trial.id
        for one in planned
        if one.trial.id not in verdicts and peak_of(one) > lowest.get(family_of(one), float("inf"))
    )
