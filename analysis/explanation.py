"""`keel-lab explain`: one trial's verdict, what moved first inside the model, and a picture of both."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.first_moves import Departure, departures, window_of
from analysis.readings import Reading, read
from keel_lab import diagnostics as names
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.diagnostics import Diagnostics, Window
from keel_lab.errors import KeelLabError, UsageError
from keel_lab.result import TrialResult
from keel_lab.trial import Trial

if TYPE_CHECKING:
    from keel_lab.store.lookup import FoundTrial
    from keel_lab.store.root import Root

SCHEMA = 1
UPDATE_PER_LR = "update_ratio_per_lr"  # on a ramp the ratio itself follows the LR
LEAST_LOGIT = 1.0  # smaller ones hardly bend a softmax: there they may move as they like
RANKED = (names.GRAD_NORM, UPDATE_PER_LR, names.ATTENTION_LOGIT, names.OUTPUT_LOGIT, names.STREAM_RMS)

Replay = Callable[[Trial, TrialResult, Window, int | None], Diagnostics]


@dataclass(frozen=True)
class Explanation:
    """Everything that is said of one trial.

    Attributes:
        sweep: whose thresholds the verdict is under; None: those the trial was run under.
        onset: the first bad step of a diverged or unconfirmed run.
        diagnostics: None if the replay was refused.
        departures: by measure, see `analysis.first_moves`.
        refusal: why there are no diagnostics.
    """

    found: FoundTrial
    trial: Trial
    sweep: str | None
    result: TrialResult
    verdict: Verdict
    curve: Curve
    window: Window
    diagnostics: Diagnostics | None = None
    departures: dict[str, list[Departure]] | None = None
    refusal: KeelLabError | None = None

    @property
    def onset(self) -> int | None:
        """The first bad step, if there is one."""
        return self.verdict.onset_step

    def to_json(self) -> str:
        """The explanation as a JSON object."""
        fidelity = None
        if self.diagnostics is not None:
            fidelity = {"exact": self.diagnostics.fidelity.exact, **asdict(self.diagnostics.fidelity)}
        moved = [asdict(one) for ones in (self.departures or {}).values() for one in ones]
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "trial_id": self.trial.id,
            "name": self.found.name,
            "sweep": self.sweep,
            "verdict": self.verdict.to_json(),
            "window": list(self.window),
            "replay": fidelity,
            "replay_refused": None if self.refusal is None else str(self.refusal),
            "moved": sorted(moved, key=lambda one: one["step"]) if self.departures is not None else None,
        }
        return json.dumps(_finite(content), indent=2, allow_nan=False)


def explain(found: FoundTrial, root: Root, replay: Replay, sweep: str | None = None) -> Explanation:
    """Explains a finished trial; the replay is made once and then read from storage.

    Args:
        found: which trial.
        root: storage.
        replay: makes the diagnostics (trial, result, window, onset); what it refuses is told, not raised.
        sweep: under whose thresholds; needed only where the trial's sweeps disagree about it.

    Raises:
        UsageError: if the trial is not done, or its sweeps judge it differently and none is named.
    """
    from keel_lab.store.trials import Trials

    trials = Trials(root)
    result, trial = trials.result(found.trial_id), trials.trial(found.trial_id)
    if result is None or (trial is None and not found.homes):
        raise UsageError(f"trial {found.name} is not done: {_state(found, root)}")
    name, verdict = _verdict(found, result, root, sweep)
    curve = trials.curve(found.trial_id)
    window = window_of(verdict.onset_step, len(curve))
    trial = found.homes[0].planned.trial if trial is None else trial
    bare = Explanation(found, trial, name, result, verdict, curve, window)
    try:
        diagnostics = _diagnostics(bare, root, replay)
    except KeelLabError as error:
        return replace(bare, refusal=error)
    return replace(bare, diagnostics=diagnostics, departures=_departures(diagnostics, curve, verdict.onset_step))


def store_figures(explanation: Explanation, root: Root) -> list[Path]:
    """Draws the explanation into storage, `trials/ID/figures/explain.png` and `.svg`.

    Returns:
        The files on this machine: the stored ones, or on an object store the copies that were uploaded.
    """
    from analysis.figures.explain import draw
    from keel_lab.store.committed import path_of

    drafts, found = Path(tempfile.mkdtemp(prefix="keel-lab-figures-")), []
    for draft in draw(explanation, drafts):
        path = path_of(explanation.trial.id, f"figures/{draft.name}")
        root.write_file(path, draft)
        found.append(root.local(path) or draft)
    if drafts not in {path.parent for path in found}:
        shutil.rmtree(drafts)
    return found


def _state(found: FoundTrial, root: Root) -> str:
    from keel_lab.store.trials import Trials

    attempts = Trials(root).attempts(found.trial_id)
    stopped = root.exists(f"trials/{found.trial_id}/checkpoints/last.json")
    state = f"it failed ({attempts[-1].kind}: {attempts[-1].message})" if attempts else "it has not run to its end"
    state = f"{state}, and has a checkpoint" if stopped else state
    return f"{state}; go on with: keel-lab resume {found.homes[0].sweep.name}" if found.homes else state


def _verdict(found: FoundTrial, result: TrialResult, root: Root, sweep: str | None) -> tuple[str | None, Verdict]:
    """The verdict under a sweep's thresholds, and that sweep."""
    homes = [home.sweep.name for home in found.homes]
    verdicts = {
        one.stored.name: _with_siblings(reading, reading.verdict)
        for one in read(homes if sweep is None else [sweep], root)
        for reading in (*one.readings, *one.beside)
        if reading.planned.trial.id == found.trial_id and reading.verdict is not None
    }
    if not verdicts:
        return None, result.verdict
    said = {name: (verdict.status, verdict.mode, verdict.onset_step) for name, verdict in verdicts.items()}
    if len(set(said.values())) > 1:
        raise UsageError(
            f"trial {found.name} is judged differently in its sweeps: "
            + ", ".join(f"{status} in {name}" for name, (status, _, _) in said.items())
            + "; name one with --sweep"
        )
    return next(iter(verdicts.items()))


def _with_siblings(reading: Reading, verdict: Verdict) -> Verdict:
    """The verdict with what its siblings and forks add; that it fell behind, where it lost no level of its own."""
    beside, forked = reading.degradation, reading.irreversible
    if beside is not None and beside.mode is Mode.DEGRADATION and verdict.status is not Status.DIVERGED:
        return beside
    told = [other.evidence for other in (beside, forked) if other is not None]
    more = {key: evidence[key] for evidence in told for key in ("siblings", "reversal") if key in evidence}
    return replace(verdict, evidence={**verdict.evidence, **more})


def _diagnostics(explanation: Explanation, root: Root, replay: Replay) -> Diagnostics:
    from keel_lab.store import diagnoses

    trial, window = explanation.trial, explanation.window
    stored = diagnoses.load(root, trial.id)
    if stored is not None and stored.answers(explanation.curve, window):
        return stored.within(window)
    return diagnoses.save(root, replay(trial, explanation.result, window, explanation.onset))


def _departures(diagnostics: Diagnostics, curve: Curve, onset: int | None) -> dict[str, list[Departure]]:
    lrs = [curve.steps[step - 1].lr for step in diagnostics.steps]
    values: dict[str, list[list[float]]] = dict(diagnostics.values)
    places = dict(diagnostics.places)
    values[UPDATE_PER_LR] = [
        [value / lr if lr else 0.0 for value in row]
        for row, lr in zip(diagnostics.values[names.UPDATE_RATIO], lrs, strict=True)
    ]
    places[UPDATE_PER_LR] = places[names.UPDATE_RATIO]
    least = {names.ATTENTION_LOGIT: LEAST_LOGIT, names.OUTPUT_LOGIT: LEAST_LOGIT}
    return {
        name: departures(name, places[name], values[name], diagnostics.steps, onset, least.get(name, 0.0))
        for name in RANKED
    }


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0.0 else value
