"""Judges the trials of a sweep beside their siblings, when all are in; each detector's verdicts are stored apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from keel_lab.curve import Curve
from keel_lab.detect.reversal import judge_reversal
from keel_lab.detect.siblings import SIBLINGS, Sibling, judge_before_onset
from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import holds_of, reference_of, reversal_of
from keel_lab.plan.skipping import family_of
from keel_lab.result import TrialResult
from keel_lab.settings import RampSchedule
from keel_lab.store.sweeps import StoredSweep, Sweeps
from keel_lab.store.trials import Trials

HARDWARE = ("device", "accelerator")  # of `execution`; curves from different ones are compared, and flagged


def judge_all(sweep: StoredSweep, settled: Mapping[str, TrialResult], sweeps: Sweeps, trials: Trials) -> None:
    """Stores the verdicts of the trials by themselves, beside their siblings, and of the reversal forks."""
    alone = {trial_id: result.verdict for trial_id, result in settled.items()}
    sweeps.put_judgements(sweep.name, sweep.thresholds, alone)
    for verdicts in judge_beside(sweep, settled, trials):
        sweeps.put_judgements(sweep.name, sweep.thresholds, verdicts)


def judge_beside(
    sweep: StoredSweep, settled: Mapping[str, TrialResult], trials: Trials
) -> tuple[dict[str, Verdict], dict[str, Verdict]]:
    """The verdicts, by trial id, of trials beside their siblings, and of diverged ramps with their reversal forks.

    Args:
        sweep: with the thresholds to judge under.
        settled: results with the verdicts of the trials by themselves, forks included.
        trials: where the curves are.
    """
    judge = _Beside(sweep, settled, trials)
    return dict(judge.degradation()), dict(judge.reversals())


class _Beside:
    def __init__(self, sweep: StoredSweep, settled: Mapping[str, TrialResult], trials: Trials) -> None:
        self._sweep, self._settled, self._trials = sweep, settled, trials
        self._curves: dict[str, Curve] = {}
        self._grid: dict[str, list[PlannedTrial]] = {}
        for planned in self._measured():
            self._grid.setdefault(family_of(planned), []).append(planned)

    def degradation(self) -> Iterator[tuple[str, Verdict]]:
        """Modes 1+2+3: the earlier of a trial's own divergence and of its falling behind its siblings."""
        for planned in self._measured():
            siblings = self._siblings(planned)
            if siblings:
                yield planned.trial.id, self._beside(planned, siblings)
        self._curves.clear()

    def reversals(self) -> Iterator[tuple[str, Verdict]]:
        """What of a ramp's divergence cannot be undone, where both forks are in."""
        for planned in self._measured():
            result = self._settled[planned.trial.id]
            if not isinstance(planned.trial.schedule, RampSchedule):
                continue
            length = self._sweep.siblings.fork_steps
            forks = reversal_of(planned.trial, result.steps, result.verdict, length)
            if forks is None or any(fork.id not in self._settled for fork in forks):
                continue
            trunk, now, before = (self._trials.curve(one).steps for one in (planned.trial.id, *(f.id for f in forks)))
            entropy = result.data.get("unigram_entropy")
            yield (
                planned.trial.id,
                judge_reversal(result.verdict, trunk, now, before, self._sweep.thresholds, entropy),
            )

    def _measured(self) -> Iterator[PlannedTrial]:
        for planned in self._sweep.trials:
            if planned.role is Role.TRIAL and planned.trial.id in self._settled:
                yield planned

    def _siblings(self, planned: PlannedTrial) -> list[str]:
        """The finished runs on the same data in the same order, by id: of a ramp's own making, or of its grid."""
        if isinstance(planned.trial.schedule, RampSchedule):
            settings = self._sweep.siblings
            reference = [reference_of(planned.trial)] if settings.reference else []
            ids = [trial.id for trial in (*reference, *holds_of(planned.trial, settings.holds))]
        else:
            ids = [other.trial.id for other in self._grid[family_of(planned)] if other is not planned]
        return [trial_id for trial_id in ids if trial_id in self._settled]

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
        if trial_id not in self._curves:
            self._curves[trial_id] = self._trials.curve(trial_id)
        return self._curves[trial_id]
