"""Judges trials beside their siblings as soon as those are in, and the rest at the end; stores all verdicts.

What an earlier run judged is not judged again while it stands: the trial and its siblings are the same, and each has
the verdict by itself that it had then.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property

from keel_lab.detect.reversal import REVERSAL
from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.verdict import Verdict
from keel_lab.errors import KeelLabError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.schedule.beside import Beside
from keel_lab.store import told_worse as told_worse_store
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.told_worse import ToldWorse
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

    def __init__(
        self, sweep: StoredSweep, settled: Mapping[str, TrialResult], sweeps: Sweeps, trials: Trials, root: Root
    ) -> None:
        self._sweep, self._settled, self._sweeps, self._trials, self._root = sweep, settled, sweeps, trials, root
        self._worse = told_worse(sweep, settled, sweeps, root)
        self._new: dict[str, Verdict] = {}
        self._ready: deque[PlannedTrial] = deque()

    @cached_property
    def _beside(self) -> Beside:
        return Beside(self._sweep, self._settled, self._trials)

    @cached_property
    def _alone(self) -> dict[str, Verdict]:
        return self._sweeps.judgements(self._sweep.name, self._sweep.thresholds)

    @cached_property
    def _known(self) -> dict[str, Verdict]:
        return self._sweeps.judgements(self._sweep.name, self._sweep.thresholds, SIBLINGS)

    @cached_property
    def _missing(self) -> dict[str, set[str]]:
        """By id of a trial the ids of it and its siblings that have no result yet."""
        return {planned.trial.id: self._lacks(planned) for planned in self._beside.measured}

    @cached_property
    def _awaited(self) -> dict[str, list[PlannedTrial]]:
        """The other way round: by id of what has no result the trials that wait for it."""
        awaited: dict[str, list[PlannedTrial]] = {}
        for planned in self._beside.measured:
            for trial_id in self._missing[planned.trial.id]:
                awaited.setdefault(trial_id, []).append(planned)
        return awaited

    def begin(self) -> None:
        """To be called when trials are about to run; without it nothing is looked at that an earlier run has judged."""
        assert self._awaited is not None

    def of(self, planned: PlannedTrial) -> Verdict | None:
        """What is known of it beside its siblings so far, if that says more than the trial by itself."""
        return self._worse.get(planned.trial.id)

    def settled(self, planned: PlannedTrial) -> None:
        """A trial, reference or fork has come to its result."""
        for waiting in self._awaited.pop(planned.trial.id, ()):
            missing = self._missing[waiting.trial.id]
            missing.discard(planned.trial.id)
            if waiting is planned:  # what became of it says which forks of it there will be
                missing &= self._lacks(waiting)
            if not missing:
                self._ready.append(waiting)

    @property
    def waiting(self) -> bool:
        """Whether `next` has something to do."""
        return bool(self._ready)

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
        digest = _digest(self._sweep, self._settled)
        stored = told_worse_store.read(self._root, self._sweep.name, self._sweep.thresholds)
        if stored is not None and stored.digest == digest:
            return
        for planned in self._beside.measured:
            due = planned.trial.id in self._settled and planned.trial.id not in self._new
            if due and not self._stands(planned) and (judged := self._judge(planned)):
                yield judged
        changed = {trial_id for trial_id, result in self._settled.items() if self._changed(trial_id, result)}
        forked = self._sweeps.judgements(self._sweep.name, self._sweep.thresholds, REVERSAL)
        reversals = dict(self._beside.reversals(lambda ids: not changed.isdisjoint(ids), forked))
        alone = {trial_id: self._settled[trial_id].verdict for trial_id in self._settled if trial_id in changed}
        for verdicts in (alone, self._new, reversals):
            self._sweeps.put_judgements(self._sweep.name, self._sweep.thresholds, verdicts)
        worse = _worse(self._settled, self._known)
        told_worse_store.write(self._root, self._sweep.name, self._sweep.thresholds, ToldWorse(digest, worse))

    def _judge(self, planned: PlannedTrial) -> Judged | None:
        verdict = self._beside.judge(planned)
        if verdict is None:
            return None
        self._new[planned.trial.id] = self._known[planned.trial.id] = verdict
        self._worse.pop(planned.trial.id, None)
        if not self._says_more(planned, verdict):
            return None
        self._worse[planned.trial.id] = verdict
        return planned, verdict

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


def told_worse(
    sweep: StoredSweep, results: Mapping[str, TrialResult], sweeps: Sweeps, root: Root
) -> dict[str, Verdict]:
    """The stored verdicts beside siblings, by id, that say more than those of the trials by themselves."""
    if sweep.spec.get("protocol") == "ramp" and not (sweep.siblings.reference or sweep.siblings.holds):
        return {}  # else of an earlier revision of the sweep
    found = told_worse_store.read(root, sweep.name, sweep.thresholds)
    stored = sweeps.judgements(sweep.name, sweep.thresholds, SIBLINGS) if found is None else found.verdicts
    return _worse(results, stored)


def _worse(results: Mapping[str, TrialResult], stored: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {one: verdict for one, verdict in stored.items() if one in results and _says_more(results[one], verdict)}


def _digest(sweep: StoredSweep, results: Mapping[str, TrialResult]) -> str:
    """Of what the judgements are made from: which results there are, and how they would be held side by side."""
    digest = hashlib.sha256(f"{SIBLINGS} {REVERSAL} {sweep.siblings.model_dump_json()}\n".encode())
    for trial_id in sorted(results):
        result, verdict = results[trial_id], results[trial_id].verdict
        when = result.execution.get("finished_at")
        told = (trial_id, result.steps, when, verdict.status, verdict.mode, verdict.onset_step, verdict.detector)
        digest.update(f"{told}\n".encode())
    return digest.hexdigest()


def _says_more(result: TrialResult, verdict: Verdict) -> bool:
    alone = result.verdict
    return (verdict.status, verdict.mode) != (alone.status, alone.mode)


def _text(verdict: Verdict) -> str:
    return json.dumps(verdict.to_json(), sort_keys=True)
