"""The callback between Lightning and keel_lab: reports every update, writes checkpoints, stops at the very step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from keel_lab.curve import Step
from keel_lab.errors import KeelLabError
from keel_lab.schedule.reporting import Report
from keel_lab.settings import GridSchedule
from keel_lab.trial import Trial
from trainers.data.shard import Shard
from trainers.heldout import heldout_loss
from trainers.lightning_module import TrialModule
from trainers.weights import weights_finite

CHECKPOINT = "checkpoint.ckpt"


class Recording(Callback):
    """Turns each update into a `Step`.

    Args:
        trial: what is trained.
        module: does the training.
        shard: for the validation loss at the end.
        workdir: where checkpoints are written before `report` stores them.
        report: where everything goes.
    """

    def __init__(self, trial: Trial, module: TrialModule, shard: Shard, workdir: Path, report: Report) -> None:
        self._trial = trial
        self._module = module
        self._shard = shard
        self._checkpoint = workdir / CHECKPOINT
        self._report = report
        self._step_began = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Checks that the run goes on where the curve ends."""
        resume = self._report.resume
        if trainer.global_step != (resume.step if resume else 0):
            raise KeelLabError(
                f"trial {self._trial.id}: the checkpoint was written after {trainer.global_step} updates, not "
                f"{resume.step if resume else 0}: delete the trial's checkpoints and resume"
            )
        self._step_began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Reports an update that just ended; does nothing while one accumulates."""
        measured = self._module.take_measured()
        if measured is None:
            return
        number = trainer.global_step
        step = Step(
            step=number,
            loss=measured.loss,
            lr=measured.lr,
            unigram_loss=measured.unigram_loss,
            grad_norm=measured.grad_norm,
            clipped=measured.clipped,
            skipped=measured.skipped,
            # a weight can only turn non-finite in an update whose loss or gradients were not finite
            weights_finite=measured.finite or weights_finite(self._module.model),
            tokens=number * self._trial.tokens_per_step,
        )
        now = time.perf_counter()
        trainer.should_stop = not self._report.step(step, now - self._step_began)
        self._step_began = now
        if self._report.checkpoint_due:
            trainer.save_checkpoint(self._checkpoint)
            self._report.checkpoint(self._checkpoint)
            self._step_began = time.perf_counter()  # writing a checkpoint is no part of a step's cost

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Final metrics of a schedule that has an end worth measuring."""
        schedule = self._trial.schedule
        if not (isinstance(schedule, GridSchedule) and self._report.finished and weights_finite(self._module.model)):
            return
        loss = heldout_loss(self._module.model, self._shard, schedule.validation_sequences, self._trial)
        self._report.metric("val_loss", loss)
