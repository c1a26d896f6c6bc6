"""What `keel-lab rejudge` does: new verdicts for stored curves under other thresholds, beside the ones there were.

Nothing is trained, and earlier verdicts stay: judgements are kept by detector and thresholds, and the same call again
writes the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keel_lab.columns import aligned
from keel_lab.curve import Curve
from keel_lab.detect.agreement import with_whole_curve
from keel_lab.detect.max_lr import max_lr
from keel_lab.detect.reversal import REVERSAL
from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.siblings import with_forks
from keel_lab.result import TrialResult
from keel_lab.schedule.beside import judge_beside
from keel_lab.schedule.progress import describe
from keel_lab.settings import RampSchedule
from keel_lab.spec.divergence import overridden
from keel_lab.spec.label import label_text
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


@dataclass(frozen=True)
class Rejudged:
    """A finished trial's verdicts: under the sweep's own thresholds, and under those asked for.

    Attributes:
        beside: old and new by the detectors that look at siblings and forks too, by detector, where they tell.
    """

    planned: PlannedTrial
    old: Verdict
    new: Verdict
    beside: Mapping[str, tuple[Verdict | None, Verdict | None]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether status, mode or last good step are others, by any detector."""
        return any(_core(old) != _core(new) for old, new in [(self.old, self.new), *self.beside.values()])


def _core(verdict: Verdict | None) -> tuple[Any, ...] | None:
    return None if verdict is None else (verdict.status, verdict.mode, verdict.onset_step, verdict.last_good_step)


def describe_rejudgement(name: str, overrides: Sequence[str], root: Root, *, as_json: bool) -> str:
    """Judges a stored sweep anew, stores the verdicts, and shows both, as text or JSON, without a trailing newline.

    Raises:
        SpecError: if an override is wrong; nothing was written.
        UsageError: if there is no sweep of that name, or nothing of it has finished.
    """
    sweeps = Sweeps(root)
    sweep = sweeps.load(name)
    thresholds = overridden(sweep.thresholds, overrides)
    found = rejudge(sweep, thresholds, sweeps, Trials(root))
    if as_json:
        return json.dumps(_json(sweep, thresholds, found), indent=2, allow_nan=False)
    return _text(sweep, thresholds, found)


def rejudge(sweep: StoredSweep, thresholds: Thresholds, sweeps: Sweeps, trials: Trials) -> list[Rejudged]:
    """The finished trials of a sweep, judged under `thresholds`; the new verdicts are stored."""
    results = trials.results([planned.trial.id for planned in sweep.trials])
    forks = with_forks(sweep.trials, results, sweep.siblings)[len(sweep.trials) :]
    results |= trials.results([fork.trial.id for fork in forks])
    kept = sweeps.judgements(sweep.name, sweep.thresholds)
    found, unknown = [], set()
    for planned in sweep.trials:
        trial_id, result = planned.trial.id, results.get(planned.trial.id)
        if result is not None:
            curve = trials.curve(trial_id)
            new = judged_anew(planned.trial, result, curve, thresholds)
            old = _old(sweep, result, kept.get(trial_id))
            if old is None:
                unknown.add(trial_id)
                old = judged_anew(planned.trial, result, curve, sweep.thresholds)
            found.append(Rejudged(planned, old, new))
    other = thresholds != sweep.thresholds  # what is known under the sweep's own is not replaced
    news = {one.planned.trial.id: one.new for one in found if other or one.planned.trial.id in unknown}
    if news:
        sweeps.put_judgements(sweep.name, thresholds, news)
    return _with_siblings(found, replace(sweep, thresholds=thresholds), results, sweeps, trials)


def _with_siblings(
    found: Sequence[Rejudged],
    sweep: StoredSweep,
    results: Mapping[str, TrialResult],
    sweeps: Sweeps,
    trials: Trials,
) -> list[Rejudged]:
    """Adds what siblings and forks say, before and now, and stores what they say now."""
    before = sweeps.load(sweep.name)

    def judged(under: StoredSweep, verdicts: Mapping[str, Verdict]) -> dict[str, dict[str, Verdict]]:
        alone = {trial_id: replace(results[trial_id], verdict=verdict) for trial_id, verdict in verdicts.items()}
        return dict(zip((SIBLINGS, REVERSAL), judge_beside(under, {**results, **alone}, trials), strict=True))

    new = judged(sweep, {one.planned.trial.id: one.new for one in found})
    old = {detector: sweeps.judgements(sweep.name, before.thresholds, detector) for detector in new}
    if any(new[detector].keys() - old[detector].keys() for detector in new):
        old = judged(before, {one.planned.trial.id: one.old for one in found})
    for verdicts in (new if sweep.thresholds != before.thresholds else {}).values():
        sweeps.put_judgements(sweep.name, sweep.thresholds, verdicts)
    return [
        replace(one, beside={name: pair for name in new if any(pair := _pair(one, old[name], new[name]))})
        for one in found
    ]


def _pair(
    one: Rejudged, old: Mapping[str, Verdict], new: Mapping[str, Verdict]
) -> tuple[Verdict | None, Verdict | None]:
    return old.get(one.planned.trial.id), new.get(one.planned.trial.id)


def _old(sweep: StoredSweep, result: TrialResult, kept: Verdict | None) -> Verdict | None:
    """The verdict under the sweep's own thresholds that reports use, if there is one that speaks of this curve."""
    if kept is not None and kept.evidence.get("curve_ends_at", result.steps) == result.steps:
        return kept
    same = result.verdict.detector == DETECTOR and dict(result.thresholds) == sweep.thresholds.model_dump(mode="json")
    return result.verdict if same else None


def judged_anew(trial: Trial, result: TrialResult, curve: Curve, thresholds: Thresholds) -> Verdict:
    """The verdict of a stored curve under other thresholds, with both detectors' answers.

    A run that was stopped at a divergence which these thresholds do not confirm is undecided: what would have followed
    is not known. The evidence says where the curve ends, as `curve_ends_at`.
    """
    h1 = result.data.get("unigram_entropy")
    judged = judge(curve, trial.schedule, thresholds, h1, result.learn_by)
    verdict = with_whole_curve(judged.verdict, curve.steps, thresholds, h1)
    if judged.finished:
        return verdict
    evidence = {**verdict.evidence, "curve_ends_at": len(curve)}
    return replace(Verdict(Status.UNDECIDED, learned=verdict.learned), evidence=evidence)


def _text(sweep: StoredSweep, thresholds: Thresholds, found: Sequence[Rejudged]) -> str:
    old = _changes(Thresholds(), sweep.thresholds) or "the defaults"
    new = _changes(sweep.thresholds, thresholds) or "the same thresholds"
    rows = [("trial", "verdict before", "verdict now", "")]
    for one in found:
        trial = one.planned.trial
        mark = "changed" if _core(one.old) != _core(one.new) else ""
        rows.append((one.planned.name, describe(one.old, trial), describe(one.new, trial), mark))
        for name, (before, now) in one.beside.items():
            if (_core(before), _core(now)) != (_core(one.old), _core(one.new)):  # else they add nothing
                was, is_now = (describe(verdict, trial) if verdict else "-" for verdict in (before, now))
                rows.append((f"  by {name}", was, is_now, "changed" if _core(before) != _core(now) else ""))
    changed = sum(one.changed for one in found)
    out = len(sweep.trials) - len(found)
    missing = f"; {out} have not finished: keel-lab resume {sweep.name}" if out else ""
    head = f"sweep {sweep.name}: {len(found)} of {len(sweep.trials)} trials judged anew by {DETECTOR}{missing}"
    lines = [head, f"before: {old}; now: {new}", "", aligned(rows), "", f"{changed} of {len(found)} changed"]
    return "\n".join([*lines, *_what_next(sweep, thresholds, found)])


def _what_next(sweep: StoredSweep, thresholds: Thresholds, found: Sequence[Rejudged]) -> list[str]:
    """How these verdicts become the sweep's own, where they are others."""
    if thresholds == sweep.thresholds:
        return []
    old, new = sweep.thresholds.model_dump(), thresholds.model_dump()
    words = " ".join(f"divergence.{key}={new[key]}" for key in new if new[key] != old[key])
    cut = sum("curve_ends_at" in one.new.evidence for one in found)
    more = f", and trains on the {cut} whose curve ends too early" if cut else ""
    return [f"report and status keep the sweep's own thresholds; keel-lab run FILE {words} makes it these{more}"]


def _changes(before: Thresholds, after: Thresholds) -> str:
    old, new = before.model_dump(), after.model_dump()
    return ", ".join(f"{key} {label_text(new[key])}" for key in new if new[key] != old[key])


def _json(sweep: StoredSweep, thresholds: Thresholds, found: Sequence[Rejudged]) -> dict[str, Any]:
    return {
        "sweep": sweep.name,
        "detector": DETECTOR,
        "thresholds": {"old": sweep.thresholds.model_dump(mode="json"), "new": thresholds.model_dump(mode="json")},
        "trials": [
            {
                "id": one.planned.trial.id,
                "name": one.planned.name,
                "changed": one.changed,
                "old": _verdict(one.old, one.planned.trial),
                "new": _verdict(one.new, one.planned.trial),
                "beside": {
                    name: [verdict and _verdict(verdict, one.planned.trial) for verdict in pair]
                    for name, pair in one.beside.items()
                },
            }
            for one in found
        ],
        "not_finished": len(sweep.trials) - len(found),
    }


def _verdict(verdict: Verdict, trial: Trial) -> dict[str, Any]:
    reading = max_lr(verdict)
    lr = reading.lr if reading.lr is not None and math.isfinite(reading.lr) else None
    ramped = isinstance(trial.schedule, RampSchedule)
    return {
        **verdict.to_json(),
        "text": describe(verdict, trial),
        "max_lr": lr if ramped else None,
        "max_lr_kind": str(reading.kind) if ramped else None,
    }
