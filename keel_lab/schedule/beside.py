"""Judges the trials of a sweep beside their siblings: degradation, and what reversal forks say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import replace

from keel_lab.curve import Curve
from keel_lab.detect.reversal import judge_reversal
from keel_lab.detect.siblings import SIBLINGS, Sibling, judge_before_onset
from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import forks_of, holds_of, reference_of, reversal_of
from keel_lab.plan.skipping import family_of
from keel_lab.result import TrialResult
from keel_lab.settings import RampSchedule
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.trials import Trials

HELD = 100_000  # steps of curves in memory
HARDWARE = ("device", "accelerator")  # of `execution`; curves from different ones are compared, and flagged


def judge_beside(
    sweep: StoredSweep, settled: Mapping[str, TrialResult], trials: Trials
) -> tuple[dict[str, Verdict], dict[str, Verdict]]:
    """The verdicts, by trial id, of trials beside their siblings, and of diverged ramps with their reversal forks.

    Args:
        sweep: with the thresholds to judge under.
        settled: results with the verdicts of the trials by themselves, forks included.
        trials: where the curves are.
    """
    judge = Beside(sweep, settled, trials)
    found = ((planned.trial.id, judge.judge(planned)) for planned in judge.measured if planned.trial.id in settled)
    return {trial_id: verdict for trial_id, verdict in found if verdict is not None}, dict(judge.reversals())


class Beside:
    """Judges one trial at a time.

    Attributes:
        measured: the sweep's trials that are judged so, in order.

    Args:
        sweep: with the thresholds to judge under.
        settled: results by id, forks included; may grow.
        trials: where the curves are.
    """

    def __init__(self, sweep: StoredSweep, settled: Mapping[str, TrialResult], trials: Trials) -> None:
        self._sweep, self._settled, self._trials = sweep, settled, trials
        self._siblings_settings = sweep.siblings
        self._curves: dict[str, Curve] = {}
        self._references: dict[str, str] = {}
        self._family_of: dict[str, Hashable] = {}
        self._families: dict[Hashable, list[str]] = {}
        self.measured = [planned for planned in sweep.trials if planned.role is Role.TRIAL]
        for planned in self.measured:
            family = self._family_of[planned.trial.id] = family_of(planned)
            self._families.setdefault(family, []).append(planned.trial.id)

    def siblings(self, planned: PlannedTrial) -> list[str]:
        """The runs on the same data in the same order, by id: of a ramp's own making, or of its grid."""
        if isinstance(planned.trial.schedule, RampSchedule):
            settings, result = self._siblings_settings, self._settled.get(planned.trial.id)
            held = [fork.id for fork in holds_of(planned.trial, settings.holds)]
            if held and result is not None:  # of a ramp that lost its level not all are run
                run = {fork.trial.id for fork in forks_of(planned, result, settings)}
                held = [fork for fork in held if fork in run or fork in self._settled]
            return [*self._reference(planned), *held]
        family = self._families[self._family_of[planned.trial.id]]
        return [trial_id for trial_id in family if trial_id != planned.trial.id]

    def _reference(self, planned: PlannedTrial) -> list[str]:
        if not self._siblings_settings.reference:
            return []
        if planned.trial.id not in self._references:  # an id is a hash, asked for several times
            self._references[planned.trial.id] = reference_of(planned.trial).id
        return [self._references[planned.trial.id]]

    def judge(self, planned: PlannedTrial) -> Verdict | None:
        """Modes 1+2+3: the earlier of a trial's own divergence and of its falling behind its siblings.

        None if none of its siblings has finished.

        Raises:
            KeelLabError: if a curve is damaged.
        """
        ids = [trial_id for trial_id in self.siblings(planned) if trial_id in self._settled]
        return self._beside(planned, ids) if ids else None

    def reversals(
        self, due: Callable[[Collection[str]], bool] = lambda ids: True, known: Collection[str] = ()
    ) -> Iterator[tuple[str, Verdict]]:
        """What of a ramp's divergence cannot be undone, where both forks are in.

        Args:
            due: asked with the ids of ramp and forks whether to judge one that is known.
            known: ids of those that were judged before.
        """
        for planned in self.measured:
            result = self._settled.get(planned.trial.id)
            if result is None or not isinstance(planned.trial.schedule, RampSchedule):
                continue
            length = self._siblings_settings.fork_steps
            forks = reversal_of(planned.trial, result.steps, result.verdict, length)
            if forks is None or any(fork.id not in self._settled for fork in forks):
                continue
            ids = (planned.trial.id, *(fork.id for fork in forks))
            if planned.trial.id in known and not due(ids):
                continue
            trunk, now, before = (self._trials.curve(one).steps for one in ids)
            entropy = result.data.get("unigram_entropy")
            yield (
                planned.trial.id,
                judge_reversal(result.verdict, trunk, now, before, self._sweep.thresholds, entropy),
            )

    def _beside(self, planned: PlannedTrial, ids: list[str]) -> Verdict:
        result = self._settled[planned.trial.id]
        curves = [Sibling(trial_id, self._curve(trial_id).steps) for trial_id in ids]
        steps, entropy = self._curve(planned.trial.id).steps, result.data.get("unigram_entropy")
        verdict = judge_before_onset(result.verdict, steps, curves, self._sweep.thresholds, entropy)
        mixed = sorted(
            {str(self._settled[one].execution.get(key)) for one in (planned.trial.id, *ids) for key in HARDWARE}
        )
        same = all(
            self._settled[one].execution.get(key) == result.execution.get(key) for one in ids for key in HARDWARE
        )
        evidence = verdict.evidence if same else {**verdict.evidence, "mixed_hardware": mixed}
        return replace(verdict, evidence=evidence, detector=SIBLINGS)

    def _curve(self, trial_id: str) -> Curve:
        """A curve; the last ones are at hand, since the others of a family ask for them next."""
        curve = self._curves.pop(trial_id, None)
        if curve is None:
            curve = self._trials.curve(trial_id)
        self._curves[trial_id] = curve
        while len(self._curves) > 1 and sum(map(len, self._curves.values())) > HELD:
            del self._curves[next(iter(self._curves))]
        return curve
