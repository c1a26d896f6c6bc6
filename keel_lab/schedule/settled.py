"""Whether what is stored of a trial already answers it under the thresholds asked for (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from keel_lab.curve import Curve
from keel_lab.detect.agreement import with_whole_curve
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


def outcome_of(verdict: Verdict) -> Outcome:
    """The outcome of a run that came to its own end."""
    return Outcome.DIVERGED if verdict.status is Status.DIVERGED else Outcome.COMPLETED


def settle(
    trial: Trial, result: TrialResult | None, curve: Callable[[], Curve], thresholds: Thresholds
) -> TrialResult | None:
    """The stored result with outcome and verdict under `thresholds`, or None if the trial has to run (on).

    It settles the trial if it was watched by this very detector under these thresholds, or if the stored curve, judged
    anew, is complete or confirmed as diverged.

    Args:
        trial: the question.
        result: what is stored of it, if anything.
        curve: reads its stored curve; called only if the verdict has to be found anew.
        thresholds: what is asked for now.
    """
    if result is None:
        return None
    wanted = thresholds.model_dump(mode="json")
    if result.verdict.detector == DETECTOR and dict(result.thresholds) == wanted:
        return result
    stored, entropy = curve(), result.data.get("unigram_entropy")
    judged = judge(stored, trial.schedule, thresholds, entropy)
    if not judged.finished:
        return None
    verdict = with_whole_curve(judged.verdict, stored.steps, thresholds, entropy)
    return replace(result, outcome=outcome_of(verdict), verdict=verdict, thresholds=wanted)


def settled_results(trials: Trials, planned: Sequence[PlannedTrial], thresholds: Thresholds) -> dict[str, TrialResult]:
    """The results, by id, of those planned trials that do not have to run (on) under `thresholds`."""
    stored = trials.results([item.trial.id for item in planned])
    settled = {}
    for item in planned:
        curve = partial(trials.curve, item.trial.id)
        result = settle(item.trial, stored.get(item.trial.id), curve, thresholds)
        if result is not None:
            settled[item.trial.id] = result
    return settled
