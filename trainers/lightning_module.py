"""A trial as a LightningModule: loss, optimizer step, and what the update measured on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional

from keel_lab.learning_rate import lr_at
from keel_lab.trial import Trial
from trainers.batches import ALONE, MicroBatch, Updates
from trainers.clipping import Clipping, whole_norm
from trainers.data.shard import Shard
from trainers.model import Transformer
from trainers.optimizer import optimizer, set_lr
from trainers.ranks import Ranks
from trainers.strategies import split


@dataclass(frozen=True)
class Measured:
    """What one update measured, before any weight changed; means are over its micro-batches.

    Attributes:
        lr: the LR that the optimizer holds for this very update.
        grad_norm: of all gradients, before clipping.
        clipped: whether any part of them was clipped.
    """

    loss: float
    unigram_loss: float
    lr: float
    grad_norm: float
    clipped: bool
    skipped: bool

    @property
    def finite(self) -> bool:
        """Whether loss and gradients are finite."""
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)


class TrialModule(LightningModule):
    """Trains a `Transformer` on a shard as the trial says, on one rank or, each with a part of the batch, on several.

    Attributes:
        model: on its own, so that checkpoints name its weights `model.NAME`.
    """

    def __init__(self, trial: Trial, model: Transformer, shard: Shard, ranks: Ranks = ALONE) -> None:
        super().__init__()
        self.model = model
        self._trial = trial
        self._shard = shard
        self._ranks = ranks
        self._clipping = Clipping(model, trial.train)
        self._losses: list[Tensor] = []
        self._unigram_losses: list[float] = []
        self._measured: Measured | None = None
        self._is_split = False

    def train_dataloader(self) -> Updates:
        """Goes on where the trainer stands: right for a fresh run and a resumed one."""
        return Updates(self._trial, self._shard, self.trainer.global_step, self._ranks)

    def configure_model(self) -> None:
        """Splits the model over the ranks, before there is an optimizer, where the strategy is to do so."""
        if self._ranks.size > 1 and self._trial.resources.strategy == "fsdp" and not self._is_split:
            assert self.device_mesh is not None  # its strategy has set it
            split(self.model, self.device_mesh["data_parallel"])
            self._clipping = Clipping(self.model, self._trial.train)  # the parameters are others now
            self._is_split = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """See `trainers.optimizer`."""
        return optimizer(self.model, self._trial.train)

    def transfer_batch_to_device(self, batch: MicroBatch, device: torch.device, dataloader_idx: int) -> MicroBatch:
        """Moves the tokens; Lightning's own walk through the batch costs more than the copy."""
        if device.type == "cpu":
            return batch
        return MicroBatch(batch.inputs.to(device), batch.targets.to(device), batch.unigram_loss)

    def training_step(self, batch: MicroBatch, batch_idx: int) -> Tensor:
        """Mean cross-entropy in nats a token, in fp32 whatever the precision of the branches.

        What is returned, to be minimised, has a MoE's load-balancing loss and the z-loss in it (PaLM, arXiv 2204.02311,
        section 5: the square of the logits' log-sum-exp); what is recorded has not.
        """
        logits = self.model(batch.inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten())
        z_loss = self._trial.train.z_loss
        self._losses.append(loss.detach())
        self._unigram_losses.append(batch.unigram_loss)
        balance = self.model.balance_loss()
        minimised = loss if balance is None else loss + balance
        return minimised + z_loss * logits.float().logsumexp(-1).square().mean() if z_loss else minimised

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Reads loss and gradient norm of the whole update, then clips or drops its gradients.

        Without gradients an optimizer leaves weights and moments as they are: that is a skipped update.
        """
        settings = self._trial.train
        norms = self._clipping.norms()
        numbers = torch.cat([torch.stack(self._losses), norms]).tolist()  # the one wait for the device
        losses, parts = numbers[: len(self._losses)], numbers[len(self._losses) :]
        grad_norm = whole_norm(parts)
        loss, unigram_loss = self._ranks.mean(
            sum(losses) / len(losses), sum(self._unigram_losses) / len(self._unigram_losses)
        )
        self._losses.clear()
        self._unigram_losses.clear()
        skipped = settings.skip_nonfinite and not (math.isfinite(loss) and math.isfinite(grad_norm))
        over = [] if skipped else self._clipping.over(parts)
        if skipped:
            optimizer.zero_grad(set_to_none=True)
        self._clipping.scale(over, norms)
        self._measured = Measured(loss, unigram_loss, optimizer.param_groups[0]["lr"], grad_norm, bool(over), skipped)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        """One update at the LR of its step."""
        set_lr(optimizer, lr_at(self._trial.schedule, self.trainer.global_step + 1))
        optimizer.step(closure=optimizer_closure)

    def take_measured(self) -> Measured | None:
        """What the update that just ended measured, once; None while one accumulates."""
        measured, self._measured = self._measured, None
        return measured
