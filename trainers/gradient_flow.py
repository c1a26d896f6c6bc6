"""Trains a trial up to a last moment and measures the flow of activations and gradients at each moment on the way.

Every moment is measured on the same held-out sequences, so that what changes from one to the next is the model alone.
Nothing of the training is touched: gradients are taken with `torch.autograd.grad`, not accumulated.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from keel_lab.curve import Step
from keel_lab.errors import UsageError
from keel_lab.gradient_flow import Flow, Moment
from keel_lab.store.root import Root
from keel_lab.trial import Trial
from trainers import job
from trainers.batches import first_update
from trainers.data.sampler import choices, heldout_starts, windows
from trainers.data.shard import Shard
from trainers.diagnosis import TRAINER, fetched_data
from trainers.fitting import fit, reproducible
from trainers.flow_measures import Batch, measure, normed
from trainers.model import Transformer, build
from trainers.probe import parts


def measure_flow(trial: Trial, root: Root, steps: Sequence[int]) -> Flow:
    """Measures a trial after each number of updates; if that is 0 alone, nothing is trained.

    Args:
        trial: trained with its `resources.cpus` threads, on the CPU or its GPU; no divergence ends it.
        root: storage, which holds the trial's tokenised corpus.
        steps: ascending.

    Raises:
        UsageError: if another trainer than ours trains it, or it cannot be trained here (see `job.preflight`).
    """
    if trial.trainer != TRAINER:
        raise UsageError(f"trial {trial.id} is trained by {trial.trainer}; only trials of {TRAINER} can be probed")
    job.preflight(trial)
    workdir = Path(tempfile.mkdtemp(prefix="keel-lab-probe-"))
    try:
        data = fetched_data(trial, root, workdir)
        batch = heldout_batch(trial, Shard.open(data))
        if steps[-1] == 0:
            return _untrained(trial, Shard.open(data), batch)
        made: list[_Meter] = []

        def meter(model: Transformer) -> _Meter:
            made.append(_Meter(trial, model, batch, steps))
            return made[0]

        report = _Silent(data, steps[-1])
        fit(trial, workdir, report, meter)
        return made[0].flow(report.execution)
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def heldout_batch(trial: Trial, shard: Shard) -> Batch:
    """As many held-out sequences as an update has, evenly spaced."""
    context = trial.model.context
    starts = heldout_starts(trial.train.batch_size, choices(len(shard.heldout), context))
    tokens = torch.from_numpy(windows(shard.heldout, starts, context))
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), trial.train.precision == "bf16")


def _untrained(trial: Trial, shard: Shard, batch: Batch) -> Flow:
    with reproducible(trial.resources.cpus):
        model = build(trial)
        model.calibrate(first_update(trial, shard))
        moment = measure(0, model, batch)
        execution = {"torch": torch.__version__, "accelerator": "cpu", "threads": torch.get_num_threads()}
    return Flow(trial.id, normed(model), tuple(parts(model)), (moment,), execution)


class _Meter(Callback):
    """Measures when it is time; the last of the callbacks, so the update's own numbers are in already."""

    def __init__(self, trial: Trial, model: Transformer, batch: Batch, steps: Sequence[int]) -> None:
        self._trial, self._model, self._batch, self._steps = trial, model, batch, steps
        self._start = [one.detach().clone() for one in model.parameters()]
        self._moments: list[Moment] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measures the initial model."""
        device = self._model.head.device
        self._batch = self._batch.to(device)
        self._start = [one.to(device) for one in self._start]
        self._measure(0, trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measures after an update."""
        self._measure(trainer.global_step, trainer)

    def flow(self, execution: dict[str, Any]) -> Flow:
        """Everything measured."""
        model = self._model
        return Flow(self._trial.id, normed(model), tuple(parts(model)), tuple(self._moments), execution)

    def _measure(self, step: int, trainer: Trainer) -> None:
        done = {moment.step for moment in self._moments}
        if step in self._steps and step not in done:
            optimizer = trainer.optimizers[0]
            assert isinstance(optimizer, torch.optim.AdamW)
            self._moments.append(measure(step, self._model, self._batch, self._start, optimizer))


class _Silent:
    """The `Report` of a probe: stores nothing, and trains to the last moment."""

    resume = None
    checkpoint_due = False
    finished = False  # no final metrics are wanted

    def __init__(self, data: Path, last: int) -> None:
        self._data, self._last = data, last
        self.execution: dict[str, Any] = {}

    def data_folder(self) -> Path:
        return self._data

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> None:
        self.execution = execution

    def step(self, step: Step, seconds: float = math.nan) -> bool:
        return step.step < self._last

    def checkpoint(self, path: Path) -> None:
        raise AssertionError("a probe asks for no checkpoint")

    def metric(self, name: str, value: float) -> None:
        raise AssertionError("a probe asks for no final metrics")
