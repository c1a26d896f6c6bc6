"""The runs beside a ramp that its verdict is judged with: its reference, and forks of it (DESIGN section 6).

Every one is a trial of its own, made from the ramp (and what became of it) by arithmetic alone, so that a resumed sweep
and a report find the very same ones again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.result import TrialResult
from keel_lab.settings import ForkSchedule, RampSchedule, SiblingSettings
from keel_lab.trial import Trial

A_TENTH = 10
MARKS = 8  # checkpoints kept on the way of a ramp that may be forked from before its onset
PATIENCE = 3  # a ramp that has not learned by so many times the step of its reference never will (DESIGN section 6)


def reference_of(trial: Trial) -> Trial:
    """The same ramp, in as many steps, to a tenth of the peak.

    It starts where the ramp starts, or a tenth of that if the ramp is too narrow to rise to a tenth of its peak.
    """
    ramp = _ramp(trial)
    peak = ramp.peak_lr / A_TENTH
    start = ramp.from_lr if ramp.from_lr < peak else ramp.from_lr / A_TENTH
    return trial.with_schedule(ramp.model_copy(update={"peak_lr": peak, "from_lr": start}))


def holds_of(trial: Trial, holds: int) -> list[Trial]:
    """Forks that hold the LR at levels evenly spaced on the way of the ramp (on log LR for a log ramp) to its end."""
    ramp = _ramp(trial)
    steps = sorted({round(ramp.steps * (number + 1) / (holds + 1)) for number in range(holds)})
    return [
        trial.with_schedule(ForkSchedule(trunk=ramp, at=at, lr=lr_at(ramp, at), steps=ramp.steps))
        for at in steps
        if 1 <= at < ramp.steps and lr_at(ramp, at) > 0
    ]


def reversal_of(trial: Trial, steps: int, verdict: Verdict, fork_steps: int) -> tuple[Trial, Trial] | None:
    """Two forks at a tenth of the LR before the onset: from there ("before"), and from the end of the curve ("now").

    Both end at the same step. None if there is nothing to find out: no level was lost, or the weights are not finite.

    Args:
        trial: the ramp.
        steps: length of its curve.
        verdict: of that curve.
        fork_steps: how long "now" runs.
    """
    good, lr = verdict.last_good_step, verdict.last_good_lr
    lost = verdict.status is Status.DIVERGED and verdict.mode in (Mode.COLLAPSE, Mode.IRRECOVERABLE, Mode.NON_FINITE)
    broken = verdict.evidence.get("rule") == "non_finite_weights"
    if not lost or broken or not good or not lr or not math.isfinite(lr):
        return None
    now, before = (
        trial.with_schedule(ForkSchedule(trunk=_ramp(trial), at=at, lr=lr / A_TENTH, steps=steps + fork_steps))
        for at in (steps, good)
    )
    return now, before


def marks(trial: Trial, settings: SiblingSettings) -> tuple[int, ...]:
    """The steps of a ramp at which checkpoints are worth keeping, because forks may start there."""
    if not isinstance(trial.schedule, RampSchedule):
        return ()
    steps = trial.schedule.steps
    held = {fork.schedule.at for fork in holds_of(trial, settings.holds) if isinstance(fork.schedule, ForkSchedule)}
    even = {round(steps * (number + 1) / (MARKS + 1)) for number in range(MARKS)} if settings.reversibility else set()
    return tuple(sorted((held | even) - {0}))


def with_references(trials: Iterable[PlannedTrial], settings: SiblingSettings) -> tuple[PlannedTrial, ...]:
    """The plan's trials, the reference of each ramp before it; a reference that is one of them anyway stays one."""
    planned = list(trials)
    own = {one.trial.id for one in planned}
    found: dict[str, PlannedTrial] = {}
    for one in planned:
        if settings.reference and isinstance(one.trial.schedule, RampSchedule):
            reference = beside(one, reference_of(one.trial), Role.REFERENCE)
            if reference.trial.id not in own:
                found.setdefault(reference.trial.id, reference)
        found.setdefault(one.trial.id, one)
    return tuple(found.values())


def forks_of(planned: PlannedTrial, result: TrialResult, settings: SiblingSettings) -> Iterator[PlannedTrial]:
    """What a finished ramp is followed by: holds at the levels it passed in good order, then the reversal forks."""
    if planned.role is not Role.TRIAL or not isinstance(planned.trial.schedule, RampSchedule):
        return
    verdict = result.verdict
    lost = verdict.status is Status.DIVERGED and verdict.mode is not Mode.STAGNATION
    for hold in holds_of(planned.trial, settings.holds):
        assert isinstance(hold.schedule, ForkSchedule)
        if not lost or (verdict.last_good_step is not None and hold.schedule.at <= verdict.last_good_step):
            yield beside(planned, hold, Role.HOLD)
    forks = reversal_of(planned.trial, result.steps, verdict, settings.fork_steps) if settings.reversibility else None
    if forks is not None:
        yield beside(planned, forks[0], Role.NOW)
        yield beside(planned, forks[1], Role.BEFORE)


def with_forks(
    trials: Iterable[PlannedTrial], results: Mapping[str, TrialResult], settings: SiblingSettings
) -> list[PlannedTrial]:
    """A sweep's trials and all forks that follow from its results so far."""
    planned = list(trials)
    forks = [fork for one in planned if (found := results.get(one.trial.id)) for fork in forks_of(one, found, settings)]
    return list({one.trial.id: one for one in [*planned, *forks]}.values())


def beside(planned: PlannedTrial, trial: Trial, role: Role) -> PlannedTrial:
    """A trial that stands beside a planned one, in its cell."""
    lr = trial.schedule.lr if isinstance(trial.schedule, ForkSchedule) else _ramp(trial).peak_lr
    labels = {**planned.labels, "role": str(role), "of": planned.name, "sibling_lr": lr}
    return PlannedTrial(trial, planned.cell, labels, planned.parameters, role)


def _ramp(trial: Trial) -> RampSchedule:
    if not isinstance(trial.schedule, RampSchedule):
        raise ValueError(f"trial {trial.id} is no ramp, but {trial.schedule.kind}")
    return trial.schedule
