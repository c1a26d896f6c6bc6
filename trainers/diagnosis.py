"""Replays a stored trial with its inside on view: the same trial gives the same bytes, so nothing need be kept."""

from __future__ import annotations

import math
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keel_lab.curve import Step
from keel_lab.diagnostics import Diagnostics, Fidelity, Window, curve_hash
from keel_lab.errors import KeelLabError, UsageError
from keel_lab.result import TrialResult
from keel_lab.schedule.reporting import Resume
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial

if TYPE_CHECKING:
    from trainers.model import Transformer
    from trainers.probe import Probe

TOLERATED = 0.05  # nats of loss that a replay may be off before the onset; beyond it explains another run
TRAINER = "trainers.job"
_COMPARED = ("torch", "lightning", "accelerator", "device", "threads", "host", "workers")


class ReplayError(KeelLabError):
    """The replay is not the stored run, so what it would show explains nothing."""


def diagnose(trial: Trial, result: TrialResult, root: Root, window: Window, onset: int | None) -> Diagnostics:
    """Trains the trial again up to the window's end and measures every step of the window.

    Args:
        trial: a finished one.
        result: what is stored of it; it is run with as many threads as then.
        root: storage, which holds its curve and its data.
        window: the steps to measure.
        onset: the first bad step; a replay that is not exact has to be close before it. None: close all along.

    Raises:
        ReplayError: if the replayed losses are too far from the stored ones.
        UsageError: if another trainer than ours ran it, or it cannot be trained here (see `trainers.job.preflight`).
    """
    if trial.trainer != TRAINER:
        raise UsageError(f"trial {trial.id} was run by {trial.trainer}; only runs of {TRAINER} can be replayed")
    from trainers import job
    from trainers.fitting import fit
    from trainers.probe import Probe

    trial = _as_it_was_run(trial, result.execution)
    job.preflight(trial)
    workdir = Path(tempfile.mkdtemp(prefix="keel-lab-replay-"))
    made: list[Probe] = []

    def probe(model: Transformer) -> Probe:
        made.append(Probe(model, window.first))
        return made[0]

    try:
        replay = _Replay(trial, root, workdir, window, onset)
        fit(trial, workdir, replay, probe)
        fidelity = replay.fidelity(result.execution)
    finally:
        shutil.rmtree(workdir, ignore_errors=True)
    measured = made[0]
    content = curve_hash(replay.stored, window.last)
    return Diagnostics(trial.id, content, fidelity, tuple(measured.steps), measured.places, measured.values)


def _as_it_was_run(trial: Trial, execution: Mapping[str, Any]) -> Trial:
    """The trial with the threads and the kind of device of its stored run: neither is part of its id."""
    gpus = (trial.resources.gpus or 1.0) if execution.get("accelerator") == "cuda" else 0.0
    threads = execution.get("threads", trial.resources.cpus)
    alone = {"cpus": threads, "gpus": gpus, "workers": 1}
    return trial.model_copy(update={"resources": trial.resources.model_copy(update=alone)})


def fetched_data(trial: Trial, root: Root, workdir: Path) -> Path:
    """The trial's tokenised corpus as a local folder.

    Raises:
        UsageError: if storage no longer holds it.
    """
    assert trial.data is not None  # preflight
    stored = f"data/{trial.data.fingerprint}"
    files = [root.fetch(f"{stored}/{name}", workdir / "data") for name in root.list(stored)]
    if not files:
        raise UsageError(f"{root}/{stored} is gone: without the trial's data it cannot be trained again")
    return files[0].parent


class _Replay:
    """The `Report` of a replay: compares each step with the stored one, and stores nothing."""

    checkpoint_due = False
    finished = False  # no final metrics are wanted

    def __init__(self, trial: Trial, root: Root, workdir: Path, window: Window, onset: int | None) -> None:
        trials = Trials(root)
        self.stored = trials.curve(trial.id)
        self.resume: Resume | None = None
        self._trial, self._root, self._workdir = trial, root, workdir
        self._last, self._onset = window.last, onset
        self._first_difference: int | None = None
        self._largest = 0.0
        self._far: Step | None = None
        self._facts: dict[str, Any] = {}
        kept = trials.checkpoint(trial.id, workdir / "resumed")
        if kept is not None and kept.step < window.first:
            self.resume = Resume(kept.step, kept.file)

    def data_folder(self) -> Path:
        return fetched_data(self._trial, self._root, self._workdir)

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> None:
        self._facts = execution | {"host": socket.gethostname()}

    def step(self, step: Step, seconds: float = math.nan) -> bool:
        stored = self.stored.steps[step.step - 1]
        if not all(map(_same, step, stored)):
            self._differs(step, stored)
        return step.step < self._last and self._far is None

    def checkpoint(self, path: Path) -> None:
        raise AssertionError("a replay asks for no checkpoint")

    def metric(self, name: str, value: float) -> None:
        raise AssertionError("a replay asks for no final metrics")

    def fidelity(self, execution: Mapping[str, Any]) -> Fidelity:
        differing = {
            name: (execution.get(name), self._facts.get(name))
            for name in _COMPARED
            if execution.get(name) != self._facts.get(name)
        }
        fidelity = Fidelity(self._first_difference, self._largest, differing)
        if self._far is not None:
            raise ReplayError(_refusal(self._trial, fidelity, self._far, self.stored.steps[self._far.step - 1]))
        return fidelity

    def _differs(self, step: Step, stored: Step) -> None:
        if self._first_difference is None:
            self._first_difference = step.step
        if self._onset is not None and step.step >= self._onset:
            return
        gap = 0.0 if _same(step.loss, stored.loss) else abs(step.loss - stored.loss)
        if not gap < TOLERATED:  # NaN included
            self._far = step
        else:
            self._largest = max(self._largest, gap)


def _same(one: float, other: float) -> bool:
    """Equal, or both NaN."""
    return one == other or (one != one and other != other)


def _refusal(trial: Trial, fidelity: Fidelity, step: Step, stored: Step) -> str:
    changed = ", ".join(f"{name} {old} then, {new} now" for name, (old, new) in fidelity.execution.items())
    remedy = (
        "replay it where it was run" if changed else "the execution is the same, so numerics have changed: run anew"
    )
    return (
        f"trial {trial.id}: the replay is not the stored run: they differ from step {fidelity.first_difference} on, "
        f"and at step {step.step} the loss is {step.loss:.4f} instead of {stored.loss:.4f} (tolerated before the "
        f"onset: {TOLERATED} nats)" + (f"; {changed}" if changed else "") + f"; {remedy}"
    )
