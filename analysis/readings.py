"""What storage holds of a sweep, one reading a planned trial; what has not run or has failed keeps its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.judged import Judged
from keel_lab.collector import held_back
from keel_lab.detect.max_lr import Held, MaxLR, MaxLRKind, max_lr, with_holds
from keel_lab.detect.verdict import Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import reference_of, with_forks
from keel_lab.plan.skipping import above_divergence
from keel_lab.result import Failure, Outcome, TrialResult
from keel_lab.settings import ForkSchedule, RampSchedule

if TYPE_CHECKING:
    from keel_lab.store.root import Root
    from keel_lab.store.stored_sweep import StoredSweep
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.store.trials import Trials


class Counting(StrEnum):
    """What counts as divergence (DESIGN section 6); the modes are numbered as in the paper."""

    STRICT = "strict"  # modes 1+2: any lost level
    DEGRADATION = "with_degradation"  # modes 1+2+3
    IRREVERSIBLE = "irreversible"  # modes 1+2, where a tenth of the LR does not bring the level back


State = Literal["completed", "diverged", "failed", "not_run", "skipped"]


@dataclass(frozen=True)
class Reading:
    """One trial of a stored sweep.

    Attributes:
        state: `completed` or `diverged` once a result is stored, `failed` if only failed attempts are, `skipped` if a
            lower LR diverged and the sweep runs none above it, or a search's pruner cut it, else `not_run`.
        result: None unless a result is stored.
        verdict: under the sweep's own thresholds; None without a result.
        max_lr: what `verdict` says of Max LR; None without a result, or for a schedule whose LR does not ramp.
        failure: the last failed attempt of a trial without a result.
        degradation: `verdict` with mode degradation counted too; None where no sibling tells.
        irreversible: `verdict` with only what cannot be undone counted; None where no forks tell.
    """

    sweep: str
    planned: PlannedTrial
    state: State
    result: TrialResult | None = None
    verdict: Verdict | None = None
    max_lr: MaxLR | None = None
    failure: Failure | None = None
    degradation: Verdict | None = None
    irreversible: Verdict | None = None

    @property
    def outstanding(self) -> bool:
        """Whether it has no result yet and is to have one."""
        return self.result is None and self.state != "skipped"

    def judged(self, rule: Counting) -> Verdict | None:
        """The verdict under a rule of what counts as divergence; None if that is not known."""
        others = {Counting.DEGRADATION: self.degradation, Counting.IRREVERSIBLE: self.irreversible}
        return others.get(rule, self.verdict)

    def counting(self, rule: Counting) -> MaxLR | None:
        """Max LR under a rule of what counts as divergence; None if that is not known, or the LR does not ramp."""
        never = self.max_lr is not None and self.max_lr.kind in (MaxLRKind.BELOW, MaxLRKind.NOT_LEARNED)
        if (
            self.max_lr is None or rule is Counting.STRICT or never
        ):  # of a run that never learned all rules say the same
            return self.max_lr
        verdict = self.judged(rule)
        return None if verdict is None else max_lr(verdict)


@dataclass(frozen=True)
class SweepReadings:
    """A stored sweep with its readings, in the plan's order.

    Attributes:
        readings: of the trials that are measured.
        beside: of the references and forks that stand beside them.
    """

    stored: StoredSweep
    readings: tuple[Reading, ...]
    beside: tuple[Reading, ...] = ()

    @property
    def total(self) -> int:
        """Trials, references and forks."""
        return len(self.readings) + len(self.beside)

    @property
    def finished(self) -> int:
        """Those with a stored result, or that need none."""
        return sum(one.result is not None or one.state == "skipped" for one in (*self.readings, *self.beside))


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
    with held_back():
        return [_read(name, sweeps, trials, root) for name in dict.fromkeys(names)]


def _read(name: str, sweeps: Sweeps, trials: Trials, root: Root) -> SweepReadings:
    stored = sweeps.load(name)
    results = trials.results([planned.trial.id for planned in stored.trials])
    planned_trials = with_forks(stored.trials, results, stored.siblings)
    results |= trials.results([one.trial.id for one in planned_trials if one.trial.id not in results])
    judged = Judged(stored, sweeps)
    failures = _failures(planned_trials, results, root, trials)
    readings = [
        _finished(stored, planned, results[planned.trial.id], judged, trials)
        if planned.trial.id in results
        else _unfinished(stored, planned, failures.get(planned.trial.id))
        for planned in planned_trials
    ]
    if stored.skips_above_divergence:
        readings = _skipped(readings)
    cut = stored.cut
    if cut:
        readings = [
            replace(one, state="skipped") if one.result is None and one.planned.trial.id in cut else one
            for one in readings
        ]
    own = [one for one in readings if one.planned.role is Role.TRIAL]
    beside = tuple(one for one in readings if one.planned.role is not Role.TRIAL)
    return SweepReadings(stored, tuple(_with_bound(one, beside) for one in own), beside)


def _skipped(readings: Sequence[Reading]) -> list[Reading]:
    verdicts = {one.planned.trial.id: one.verdict for one in readings if one.verdict is not None}
    skipped = above_divergence([one.planned for one in readings], verdicts)
    return [
        replace(one, state="skipped") if one.state == "not_run" and one.planned.trial.id in skipped else one
        for one in readings
    ]


def _with_bound(one: Reading, beside: Sequence[Reading]) -> Reading:
    """The reading with an upper bound from its holds, if it never learned."""
    if one.max_lr is None or one.max_lr.kind is not MaxLRKind.NOT_LEARNED:
        return one
    trial = one.planned.trial
    reference = reference_of(trial).id
    runs = []
    for other in beside:
        schedule = other.planned.trial.schedule
        if other.verdict is None:
            continue
        if (
            isinstance(schedule, ForkSchedule)
            and other.planned.role is Role.HOLD
            and other.planned.trial.trunk == trial
        ):
            runs.append(Held(schedule.lr, other.verdict))
        elif isinstance(schedule, RampSchedule) and other.planned.trial.id == reference:
            learned = other.verdict.evidence.get("learned_step")
            lr = schedule.peak_lr if learned is None else lr_at(schedule, learned)
            runs.append(Held(lr, other.verdict, held=False))
    return replace(one, max_lr=with_holds(one.max_lr, runs))


def _failures(
    planned_trials: Sequence[PlannedTrial], results: Mapping[str, TrialResult], root: Root, trials: Trials
) -> dict[str, Failure]:
    """The last failure of each trial without a result; one listing says which have left any trace at all."""
    waiting = [planned.trial.id for planned in planned_trials if planned.trial.id not in results]
    begun = set(root.list("trials")) if waiting else set()
    attempts = {trial_id: trials.attempts(trial_id) for trial_id in waiting if trial_id in begun}
    return {trial_id: failures[-1] for trial_id, failures in attempts.items() if failures}


def _unfinished(stored: StoredSweep, planned: PlannedTrial, failure: Failure | None) -> Reading:
    return Reading(stored.name, planned, "not_run" if failure is None else "failed", failure=failure)


def _finished(
    stored: StoredSweep, planned: PlannedTrial, result: TrialResult, judged: Judged, trials: Trials
) -> Reading:
    """The reading of a trial with a result."""
    verdict = judged.alone(planned, result, trials)
    ramped = isinstance(planned.trial.schedule, RampSchedule)
    return Reading(
        stored.name,
        planned,
        "diverged" if result.outcome is Outcome.DIVERGED else "completed",
        result,
        verdict,
        max_lr(verdict) if ramped else None,
        degradation=judged.degradation(planned.trial.id),
        irreversible=judged.irreversible(planned.trial.id, verdict),
    )
