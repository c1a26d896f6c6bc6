"""A Lightning callback for anyone's own training: the same detector, three lines, no keel_lab sweep needed.

It watches the loss that `training_step` returns, once an optimizer step (the mean over micro-batches), with the
learning rate of the first parameter group and the global gradient norm before clipping.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable as Function
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import MLFlowLogger
from torch import Tensor, nn

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import State, Verdict

TAG = "divergence."

logger = logging.getLogger(__name__)


class DivergenceMonitor(Callback):
    """Logs when training becomes suspect, recovers or diverges, tags an MLflow run with the verdict, and can stop.

    Args:
        thresholds: see `keel_lab.detect.thresholds.Thresholds`.
        unigram_entropy: H1 of the training tokens in nats; without it there is no collapse or stagnation to tell.
        unigram_loss: from a batch, the cross-entropy of its targets under the unigram distribution, in nats; with both
            of these the detector works on the paired loss.
        stop: whether a confirmed divergence stops the training at that very step.

    Attributes:
        verdict: as if training ended now.
    """

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        *,
        unigram_entropy: float | None = None,
        unigram_loss: Function[[Any], float] | None = None,
        stop: bool = True,
    ) -> None:
        self._detector = StreamingDetector(thresholds or Thresholds(), unigram_entropy)
        self._unigram_loss = unigram_loss
        self._stop = stop
        self._state = State.WARMING
        self._losses: list[Tensor] = []
        self._unigrams: list[float] = []
        self._lr = self._grad_norm = math.nan
        self._seen = 0

    @property
    def verdict(self) -> Verdict:
        """As if training ended now."""
        return self._detector.verdict()

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Reads the learning rate that this update uses and the gradients before clipping."""
        self._lr = float(optimizer.param_groups[0]["lr"])
        gradients = [parameter.grad for parameter in pl_module.parameters() if parameter.grad is not None]
        self._grad_norm = float(nn.utils.get_total_norm(gradients)) if gradients else math.nan

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Feeds the detector once an optimizer step.

        Raises:
            ValueError: if `training_step` returns no loss.
        """
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if not isinstance(loss, Tensor):
            raise ValueError("DivergenceMonitor needs a loss: training_step must return it, alone or as {'loss': ...}")
        self._losses.append(loss.detach())
        if self._unigram_loss is not None:
            self._unigrams.append(self._unigram_loss(batch))
        if trainer.global_step == self._seen:  # gradients still accumulate
            return
        self._seen = trainer.global_step
        self._update(trainer, pl_module)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tags the run with the final verdict."""
        self._tag(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a resumed run is watched anew from where it goes on."""
        return {}

    def _update(self, trainer: Trainer, module: LightningModule) -> None:
        # Lightning hands over each micro-batch's loss divided by their number
        loss = float(torch.stack(self._losses).double().mean()) * trainer.accumulate_grad_batches
        unigram = math.fsum(self._unigrams) / len(self._unigrams) if self._unigrams else math.nan
        self._losses, self._unigrams = [], []
        finite = math.isfinite(loss) or all(bool(weight.isfinite().all()) for weight in module.parameters())
        state = self._detector.update(Step(self._seen, loss, self._lr, unigram, self._grad_norm, weights_finite=finite))
        self._lr = self._grad_norm = math.nan
        if state is not self._state:
            self._changed(trainer, state, loss)
        if state is State.DIVERGED and self._stop:
            trainer.should_stop = True

    def _changed(self, trainer: Trainer, state: State, loss: float) -> None:
        self._state = state
        if trainer.is_global_zero:
            level = logging.WARNING if state in (State.SUSPECT, State.DIVERGED) else logging.INFO
            logger.log(level, "%s at step %d, loss %.4g", state, self._seen, loss)
        self._tag(trainer)

    def _tag(self, trainer: Trainer) -> None:
        """Tags every MLflow run among the trainer's loggers; other loggers have no tags."""
        verdict = self.verdict
        tags = {"verdict": str(verdict.status), "mode": str(verdict.mode or "none"), "state": str(self._state)}
        tags |= {"onset_step": str(verdict.onset_step), "last_good_lr": str(verdict.last_good_lr)}
        for tracker in trainer.loggers:
            if isinstance(tracker, MLFlowLogger) and tracker.run_id is not None:
                for name, value in tags.items():
                    tracker.experiment.set_tag(tracker.run_id, TAG + name, value)
