"""What storage holds of a sweep, one reading a planned trial; what has not run or has failed keeps its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from keel_lab.detect.max_lr import MaxLR, max_lr
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, Outcome, TrialResult
from keel_lab.settings import RampSchedule

if TYPE_CHECKING:
    from keel_lab.store.root import Root
    from keel_lab.store.sweeps import StoredSweep
    from keel_lab.store.trials import Trials

State = Literal["completed", "diverged", "failed", "not_run"]


@dataclass(frozen=True)
class Reading:
    """One trial of a stored sweep.

    Attributes:
        state: `completed` or `diverged` once a result is stored, `failed` if only failed attempts are, else `not_run`.
        result: None unless a result is stored.
        verdict: under the sweep's own thresholds; None without a result.
        max_lr: what `verdict` says of Max LR; None without a result, or for a schedule whose LR does not ramp.
        failure: the last failed attempt of a trial without a result.
    """

    sweep: str
    planned: PlannedTrial
    state: State
    result: TrialResult | None = None
    verdict: Verdict | None = None
    max_lr: MaxLR | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class SweepReadings:
    """A stored sweep with the readings of all its trials, in the plan's order."""

    stored: StoredSweep
    readings: tuple[Reading, ...]

    @property
    def finished(self) -> int:
        """Trials with a stored result."""
        return sum(one.result is not None for one in self.readings)


def open_root(storage: Root | Path | str | None) -> Root:
    """The storage root: as given, else KEEL_LAB_STORAGE, else `./keel-lab-store`."""
    from keel_lab.store.root import Root, resolve_root

    if isinstance(storage, Root):
        return storage
    return resolve_root(None if storage is None else str(storage))


def read(names: Sequence[str], root: Root) -> list[SweepReadings]:
    """Reads sweeps by name. Curves are read only where a verdict must be made again.

    Raises:
        UsageError: if there is no sweep of a name; it says which names are near.
    """
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.store.trials import Trials

    sweeps, trials = Sweeps(root), Trials(root)
    found = []
    for name in dict.fromkeys(names):
        stored = sweeps.load(name)
        judgements = sweeps.judgements(name, stored.thresholds)
        results = trials.results([planned.trial.id for planned in stored.trials])
        failures = _failures(stored, results, root, trials)
        readings = (
            _finished(stored, planned, results[planned.trial.id], judgements.get(planned.trial.id), trials)
            if planned.trial.id in results
            else _unfinished(stored, planned, failures.get(planned.trial.id))
            for planned in stored.trials
        )
        found.append(SweepReadings(stored, tuple(readings)))
    return found


def _failures(
    stored: StoredSweep, results: Mapping[str, TrialResult], root: Root, trials: Trials
) -> dict[str, Failure]:
    """The last failure of each trial without a result; one listing says which have left any trace at all."""
    waiting = [planned.trial.id for planned in stored.trials if planned.trial.id not in results]
    begun = set(root.list("trials")) if waiting else set()
    attempts = {trial_id: trials.attempts(trial_id) for trial_id in waiting if trial_id in begun}
    return {trial_id: failures[-1] for trial_id, failures in attempts.items() if failures}


def _unfinished(stored: StoredSweep, planned: PlannedTrial, failure: Failure | None) -> Reading:
    return Reading(stored.name, planned, "not_run" if failure is None else "failed", failure=failure)


def _finished(
    stored: StoredSweep, planned: PlannedTrial, result: TrialResult, verdict: Verdict | None, trials: Trials
) -> Reading:
    alike = dict(result.thresholds) == stored.thresholds.model_dump(mode="json")
    if verdict is not None and verdict.evidence.get("curve_ends_at", result.steps) != result.steps:
        verdict = None  # a rejudgement of a curve that has gone on since
    if verdict is None and alike and result.verdict.detector == DETECTOR:
        verdict = result.verdict
    if verdict is None:
        verdict = _judged_again(stored, planned, result, trials)
    state: State = "diverged" if result.outcome is Outcome.DIVERGED else "completed"
    ramped = isinstance(planned.trial.schedule, RampSchedule)
    return Reading(stored.name, planned, state, result, verdict, max_lr(verdict) if ramped else None)


def _judged_again(stored: StoredSweep, planned: PlannedTrial, result: TrialResult, trials: Trials) -> Verdict:
    curve = trials.curve(planned.trial.id)
    judged = judge(curve, planned.trial.schedule, stored.thresholds, result.data.get("unigram_entropy"))
    if judged.finished:
        return judged.verdict
    # stopped at a divergence that these thresholds do not confirm: what lies beyond is not known
    return Verdict(Status.UNDECIDED, learned=judged.verdict.learned, evidence={"curve_ends_at": len(curve)})
