"""The verdicts that count for a sweep's reports: under its own thresholds, alone, beside siblings, and for good."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from keel_lab.detect.reversal import REVERSAL
from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.settings import RampSchedule

if TYPE_CHECKING:
    from keel_lab.store.stored_sweep import StoredSweep
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.store.trials import Trials


class Judged:
    """The stored judgements of a sweep under its own thresholds, by detector."""

    def __init__(self, stored: StoredSweep, sweeps: Sweeps) -> None:
        self._stored, self._thresholds = stored, stored.thresholds.model_dump(mode="json")
        self._sweeps = sweeps
        self._beside = sweeps.judgements(stored.name, stored.thresholds, SIBLINGS)
        self._forked = sweeps.judgements(stored.name, stored.thresholds, REVERSAL)

    @cached_property
    def _alone(self) -> dict[str, Verdict]:
        return self._sweeps.judgements(self._stored.name, self._stored.thresholds)

    def alone(self, planned: PlannedTrial, result: TrialResult, trials: Trials) -> Verdict:
        """The verdict of a trial by itself."""
        alike = dict(result.thresholds) == self._thresholds
        bound = isinstance(planned.trial.schedule, RampSchedule)  # its own verdict may know by when it had to learn
        own = alike and result.verdict.detector == DETECTOR
        verdict = self._alone.get(planned.trial.id) if bound or not own else None
        if verdict is not None and verdict.evidence.get("curve_ends_at", result.steps) != result.steps:
            verdict = None  # a rejudgement of a curve that has gone on since
        if verdict is None and own:
            verdict = result.verdict
        return _judged_again(self._stored, planned, result, trials) if verdict is None else verdict

    def degradation(self, trial_id: str) -> Verdict | None:
        """Beside its siblings, where it was held against any."""
        siblings = self._stored.siblings
        wanted = self._stored.spec.get("protocol") != "ramp" or siblings.reference or siblings.holds
        verdict = self._beside.get(trial_id) if wanted else None  # else of an earlier revision of the sweep
        told = verdict is not None and verdict.evidence.get("siblings", {}).get("finding") != "no_siblings"
        return verdict if told else None

    def irreversible(self, trial_id: str, verdict: Verdict) -> Verdict | None:
        """What its forks say of a divergence, where it has them."""
        if not self._stored.siblings.reversibility:
            return None
        nothing_to_undo = verdict.censored or verdict.evidence.get("rule") == "non_finite_weights"
        return verdict if nothing_to_undo else self._forked.get(trial_id)


def _judged_again(stored: StoredSweep, planned: PlannedTrial, result: TrialResult, trials: Trials) -> Verdict:
    curve = trials.curve(planned.trial.id)
    judged = judge(
        curve, planned.trial.schedule, stored.thresholds, result.data.get("unigram_entropy"), result.learn_by
    )
    if judged.finished:
        return judged.verdict
    # stopped at a divergence that these thresholds do not confirm: what lies beyond is not known
    return Verdict(Status.UNDECIDED, learned=judged.verdict.learned, evidence={"curve_ends_at": len(curve)})
