"""Whether what is stored of a trial already answers it under the thresholds asked for (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from keel_lab.curve import Curve
from keel_lab.detect.agreement import with_whole_curve
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import PATIENCE, reference_of, with_forks
from keel_lab.result import Outcome, TrialResult
from keel_lab.settings import ALONE, RampSchedule, SiblingSettings
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


def outcome_of(verdict: Verdict) -> Outcome:
    """The outcome of a run that came to its own end."""
    return Outcome.DIVERGED if verdict.status is Status.DIVERGED else Outcome.COMPLETED


def settle(
    trial: Trial,
    result: TrialResult | None,
    curve: Callable[[], Curve],
    thresholds: Thresholds,
    learn_by: int | None = None,
) -> TrialResult | None:
    """The stored result with outcome and verdict under `thresholds`, or None if the trial has to run (on).

    It settles the trial if it was watched by this very detector under these thresholds, or if the stored curve, judged
    anew, is complete or confirmed as diverged.

    Args:
        trial: the question.
        result: what is stored of it, if anything.
        curve: reads its stored curve; called only if the verdict has to be found anew.
        thresholds: what is asked for now.
        learn_by: the step by which it has to have learned, as asked for now.
    """
    if result is None:
        return None
    wanted = thresholds.model_dump(mode="json")
    if result.verdict.detector == DETECTOR and dict(result.thresholds) == wanted and _in_time(result, learn_by):
        return result
    stored, entropy = curve(), result.data.get("unigram_entropy")
    judged = judge(stored, trial.schedule, thresholds, entropy, learn_by)
    if not judged.finished:
        return None
    verdict = with_whole_curve(judged.verdict, stored.steps, thresholds, entropy)
    return replace(result, outcome=outcome_of(verdict), verdict=verdict, thresholds=wanted, learn_by=learn_by)


def _in_time(result: TrialResult, learn_by: int | None) -> bool:
    """Whether the run would have gone the same way had it had to learn by that step."""
    learned = result.verdict.evidence.get("learned_step")
    return result.learn_by == learn_by or (learned is not None and (learn_by is None or learned <= learn_by))


def settled_results(
    trials: Trials,
    planned: Sequence[PlannedTrial],
    thresholds: Thresholds,
    siblings: SiblingSettings = ALONE,
) -> dict[str, TrialResult]:
    """The results, by id, of those planned trials and of their forks that do not have to run (on) under `thresholds`.

    References are looked at first: they say by when a ramp has to have learned.
    """
    stored = trials.results([item.trial.id for item in planned])
    settled: dict[str, TrialResult] = {}

    def look(items: Iterable[PlannedTrial]) -> None:
        for item in items:
            trial_id = item.trial.id
            by = learn_by(item, settled, siblings)
            result = settle(item.trial, stored.get(trial_id), partial(trials.curve, trial_id), thresholds, by)
            if result is not None:
                settled[trial_id] = result

    look(item for item in planned if item.trial.id in stored and item.role is Role.REFERENCE)
    look(item for item in planned if item.trial.id in stored and item.trial.id not in settled)
    forks = [item for item in with_forks(planned, settled, siblings) if item.trial.id not in stored]
    forks = [item for item in forks if item.role is not Role.TRIAL and item.role is not Role.REFERENCE]
    stored |= trials.results([item.trial.id for item in forks])
    look(forks)
    return settled


def learn_by(planned: PlannedTrial, settled: Mapping[str, TrialResult], siblings: SiblingSettings) -> int | None:
    """Three times the step at which the trial's finished reference left the unigram level; None if nothing is known.

    A trial that is its own sweep's reference of another one, or a fork, has no such bound.
    """
    if not siblings.reference or planned.role is not Role.TRIAL or not isinstance(planned.trial.schedule, RampSchedule):
        return None
    reference = settled.get(reference_of(planned.trial).id)
    step = None if reference is None else reference.verdict.evidence.get("learned_step")
    return None if step is None else PATIENCE * int(step)
