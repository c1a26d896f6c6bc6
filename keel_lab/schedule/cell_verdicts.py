"""Judges trials beside their siblings as soon as those are in, and the rest at the end; stores all verdicts.

What an earlier run judged is not judged again while it stands: the trial and its siblings are the same, and each has
the verdict by itself that it had then.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping

from keel_lab.detect.reversal import REVERSAL
from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.verdict import Verdict
from keel_lab.errors import KeelLabError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.schedule.beside import Beside
from keel_lab.store.sweeps import StoredSweep, Sweeps
from keel_lab.store.trials import Trials

Judged = tuple[PlannedTrial, Verdict]
_log = logging.getLogger(__name__)


class CellVerdicts:
    """The verdicts of one run of a sweep, beyond those of the trials by themselves.

    Args:
        sweep: what is run.
        settled: results by id, forks included; the runner adds to them.
        sweeps: where verdicts are stored.
        trials: where the curves are.
    """

    def __init__(self, sweep: StoredSweep, settled: Mapping[str, TrialResult], sweeps: Sweeps, trials: Trials) -> None:
        self._sweep, self._settled, self._sweeps = sweep, settled, sweeps
        self._beside = Beside(sweep, settled, trials)
        self._alone = sweeps.judgements(sweep.name, sweep.thresholds)
        self._known = sweeps.judgements(sweep.name, sweep.thresholds, SIBLINGS)
        self._forked = sweeps.judgements(sweep.name, sweep.thresholds, REVERSAL)
        self._new: dict[str, Verdict] = {}
        self._missing = {planned.trial.id: self._lacks(planned) for planned in self._beside.measured}
        self._awaited: dict[str, list[PlannedTrial]] = {}
        for planned in self._beside.measured:
            for trial_id in self._missing[planned.trial.id]:
                self._awaited.setdefault(trial_id, []).append(planned)
        self._ready: deque[PlannedTrial] = deque()

    def of(self, planned: PlannedTrial) -> Verdict | None:
        """What an earlier run said of it beside its siblings, if that stands and says more than the trial by itself."""
        verdict = self._known.get(planned.trial.id)
        if verdict is None or planned.trial.id not in self._settled or not self._stands(planned):
            return None
        return verdict if self._says_more(planned, verdict) else None

    def settled(self, planned: PlannedTrial) -> None:
        """A trial, reference or fork has come to its result."""
        for waiting in self._awaited.pop(planned.trial.id, ()):
            missing = self._missing[waiting.trial.id]
            missing.discard(planned.trial.id)
            if waiting is planned:  # what became of it says which forks of it there will be
                missing &= self._lacks(waiting)
            if not missing:
                self._ready.append(waiting)

    def next(self) -> Judged | None:
        """Judges one of those whose siblings are all in; what says more than the trial by itself is returned."""
        while self._ready:
            planned = self._ready.popleft()
            try:
                return self._judge(planned)
            except KeelLabError as error:  # `finish` says it; the sweep goes on
                _log.warning("%s is judged beside its siblings at the end: %s", planned.name, error)
        return None

    def finish(self) -> Iterator[Judged]:
        """Judges what is left with the siblings there are, and the reversal forks; stores everything.

        Raises:
            KeelLabError: if a curve is damaged, or the storage fails.
        """
        for planned in self._beside.measured:
            due = planned.trial.id in self._settled and planned.trial.id not in self._new
            if due and not self._stands(planned) and (judged := self._judge(planned)):
                yield judged
        changed = {trial_id for trial_id, result in self._settled.items() if self._changed(trial_id, result)}
        reversals = dict(self._beside.reversals(lambda ids: not changed.isdisjoint(ids), self._forked))
        alone = {trial_id: self._settled[trial_id].verdict for trial_id in self._settled if trial_id in changed}
        for verdicts in (alone, self._new, reversals):
            self._sweeps.put_judgements(self._sweep.name, self._sweep.thresholds, verdicts)

    def _judge(self, planned: PlannedTrial) -> Judged | None:
        verdict = self._beside.judge(planned)
        if verdict is None:
            return None
        self._new[planned.trial.id] = self._known[planned.trial.id] = verdict
        return (planned, verdict) if self._says_more(planned, verdict) else None

    def _lacks(self, planned: PlannedTrial) -> set[str]:
        return {one for one in (planned.trial.id, *self._beside.siblings(planned)) if one not in self._settled}

    def _says_more(self, planned: PlannedTrial, verdict: Verdict) -> bool:
        return _says_more(self._settled[planned.trial.id], verdict)

    def _changed(self, trial_id: str, result: TrialResult) -> bool:
        """Whether it has another verdict by itself than the one stored."""
        before, now = self._alone.get(trial_id), result.verdict
        return before != now and (before is None or _text(before) != _text(now))  # a NaN is not equal to itself

    def _stands(self, planned: PlannedTrial) -> bool:
        """Whether the stored verdict is of these very siblings and curves."""
        ids = [one for one in self._beside.siblings(planned) if one in self._settled]
        verdict = self._known.get(planned.trial.id)
        if verdict is None:
            return not ids
        found = verdict.evidence.get("siblings", {})
        compared = {*found.get("used", ()), *found.get("left_out", ())}
        ids.append(planned.trial.id)
        return compared == {*ids[:-1]} and not any(self._changed(one, self._settled[one]) for one in ids)


def told_worse(sweep: StoredSweep, results: Mapping[str, TrialResult], sweeps: Sweeps) -> dict[str, Verdict]:
    """The stored verdicts beside siblings, by id, that say more than those of the trials by themselves."""
    if sweep.spec.get("protocol") == "ramp" and not (sweep.siblings.reference or sweep.siblings.holds):
        return {}  # else of an earlier revision of the sweep
    stored = sweeps.judgements(sweep.name, sweep.thresholds, SIBLINGS)
    return {one: verdict for one, verdict in stored.items() if one in results and _says_more(results[one], verdict)}


def _says_more(result: TrialResult, verdict: Verdict) -> bool:
    alone = result.verdict
    return (verdict.status, verdict.mode) != (alone.status, alone.mode)


def _text(verdict: Verdict) -> str:
    return json.dumps(verdict.to_json(), sort_keys=True)
