"""What a trainer is handed: how it resumes, reports steps, saves checkpoints and learns when to stop.

A trainer is any importable module with `preflight(trial)` and `run(trial, workdir, report)`; `report` is this.
Detection, curves, results and storage are on this side of the seam, so a trainer only trains:

    def run(trial, workdir, report):
        for step in range(1, 10**9):
            loss = ...
            if not report.step(Step(step, loss, lr_at(trial.schedule, step)), seconds):
                break
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from keel_lab.curve import Step


@dataclass(frozen=True)
class Resume:
    """Where to go on: the trainer's own checkpoint, written after `step` updates."""

    step: int
    checkpoint: Path


class Report(Protocol):
    """One running trial's line to the rest of keel_lab."""

    @property
    def resume(self) -> Resume | None:
        """Set if the run goes on from a checkpoint; steps up to `resume.step` are already in the curve."""

    @property
    def checkpoint_due(self) -> bool:
        """True when the trainer should write a checkpoint now: by time, and always after `step` returned False."""

    def data_folder(self) -> Path:
        """A local folder with the trial's tokenised shard and manifest (fetched from storage if need be)."""

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> None:
        """Says, before the first step, H1 and log V in nats, and how the trial is run (device, threads, versions)."""

    def step(self, step: Step, seconds: float = ...) -> bool:
        """Records an optimizer step and says whether to go on.

        False means: write a checkpoint if `checkpoint_due`, then return. It covers all reasons: the schedule and any
        hold at the peak are done, the run has diverged, or a stop was requested. Never blocks.
        """

    def checkpoint(self, path: Path) -> None:
        """Stores the trainer's checkpoint file, written after the last reported step, with the curve so far: atomic."""

    def metric(self, name: str, value: float) -> None:
        """A final number of the trial, e.g. `val_loss`."""

    @property
    def finished(self) -> bool:
        """After `step` returned False: True unless the run was merely asked to stop (then final metrics are moot).

        Also True after `facts`, if a resumed curve turns out to be a finished one: then there is no step to take.
        """
