"""Runs one trial through Lightning, and sees to it that its numbers depend on nothing but the trial."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch import Callback, Trainer

from keel_lab.errors import UsageError
from keel_lab.schedule.reporting import Report
from keel_lab.settings import GridSchedule
from keel_lab.trial import Trial
from trainers.batches import first_update
from trainers.data.sampler import choices
from trainers.data.shard import Shard
from trainers.heldout import heldout_loss
from trainers.lightning_module import TrialModule
from trainers.model import Transformer, build
from trainers.ranks import Ranks, SharedReport
from trainers.recording import Recording
from trainers.resuming import as_fsdp_reads_it
from trainers.signals import KeepSigterm, keyboard_interrupts
from trainers.strategies import trainer_arguments
from trainers.weights import weights_finite

_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"

for _name in ("lightning.pytorch", "lightning.fabric"):  # its advice is for people at a terminal
    logging.getLogger(_name).setLevel(logging.ERROR)


def fit(trial: Trial, workdir: Path, report: Report, probe: Callable[[Transformer], Callback] | None = None) -> None:
    """See `trainers.job.run`.

    Args:
        trial: as there.
        workdir: as there.
        report: as there.
        probe: makes a further callback around the model; it may read everything and must change nothing.

    Raises:
        UsageError: see there.
    """
    accelerator, ranks = _accelerator(trial), Ranks.of(trial)
    report = report if ranks.size == 1 else SharedReport(report, ranks)
    shard = _shard(trial, report.data_folder())
    with reproducible(trial.resources.cpus):
        report.facts(
            unigram_entropy=shard.unigram.entropy, chance=shard.unigram.chance, **_execution(accelerator, trial)
        )
        if report.finished:  # the curve so far already ends the run, e.g. under other thresholds than it began with
            _final_metrics(trial, shard, report)
            return
        model = build(trial)
        if report.resume is None:  # else what it set comes back with the weights
            model.calibrate(first_update(trial, shard))
            ranks.same_values(model)
        module = TrialModule(trial, model, shard, ranks)
        callbacks = [
            Recording(trial, module, shard, workdir, report),
            KeepSigterm(),
            *([probe(model)] if probe else []),
        ]
        trainer = _trainer(trial, ranks, accelerator, workdir, callbacks)
        checkpoint = report.resume.checkpoint if report.resume else None
        if checkpoint is not None and ranks.size > 1 and trial.resources.strategy == "fsdp":
            checkpoint = as_fsdp_reads_it(checkpoint, trial, model, workdir)
        with keyboard_interrupts():
            trainer.fit(module, ckpt_path=checkpoint, weights_only=True)


def _final_metrics(trial: Trial, shard: Shard, report: Report) -> None:
    """What a run reports at its end, for one whose last checkpoint is its end (its result was lost)."""
    if report.resume is None or not isinstance(trial.schedule, GridSchedule):
        return
    module = TrialModule(trial, build(trial), shard)
    saved = torch.load(report.resume.checkpoint, map_location="cpu", weights_only=True)
    module.load_state_dict(saved["state_dict"])
    if weights_finite(module.model):
        loss = heldout_loss(module.model, shard, trial.schedule.validation_sequences, trial)
        report.metric("val_loss", loss)


def _accelerator(trial: Trial) -> str:
    if not trial.resources.gpus:
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(
            f"resources.gpus: found {trial.resources.gpus:g}, but torch {torch.__version__} sees no CUDA device here; "
            "set it to 0, or run on machines with a GPU and a torch built for it"
        )
    return "cuda"


def _shard(trial: Trial, folder: Path) -> Shard:
    shard = Shard.open(folder)
    assert trial.data is not None  # preflight
    if shard.fingerprint != trial.data.fingerprint:
        raise UsageError(
            f"{folder}: holds the corpus {shard.fingerprint}, trial {trial.id} asks for {trial.data.fingerprint}: "
            "delete the folder and run the sweep again"
        )
    for name, tokens in (("training", shard.train), ("held-out", shard.heldout)):
        if choices(len(tokens), trial.model.context) < 1:
            raise UsageError(
                f"model.context: found {trial.model.context}, but the corpus has only {len(tokens)} {name} tokens; "
                "shorten the context or add text"
            )
    return shard


def _trainer(trial: Trial, ranks: Ranks, accelerator: str, workdir: Path, callbacks: list[Callback]) -> Trainer:
    """A bare loop: no loggers, bars, validation or checkpoints of Lightning's own, and no end but `should_stop`."""
    return Trainer(
        accelerator=accelerator,
        precision="bf16-mixed" if trial.train.precision == "bf16" else "32-true",
        accumulate_grad_batches=trial.train.accumulate,
        max_epochs=1,
        max_steps=-1,
        callbacks=callbacks,
        deterministic=True,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        default_root_dir=workdir,
        **trainer_arguments(trial, ranks),
    )


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Sets what torch keeps per process, and puts back what it was: a worker runs many trials, a debugger just one.

    No random number is drawn while training (weights and data are keyed), so the generators are left alone.
    """
    before = (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())
    filling = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    workspace = os.environ.get(_CUBLAS)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.set_flush_denormal(False)
        torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
        os.environ.pop(_CUBLAS, None)  # which Lightning sets
        if workspace is not None:
            os.environ[_CUBLAS] = workspace


def _execution(accelerator: str, trial: Trial) -> dict[str, Any]:
    """How the trial is run: equal execution is what byte equality is promised at."""
    workers, kind = trial.resources.workers, trial.resources.strategy
    together = {"workers": workers, "strategy": kind} if workers > 1 else {}
    device = torch.cuda.get_device_name() if accelerator == "cuda" else torch.backends.cpu.get_cpu_capability()
    return {
        "torch": torch.__version__,
        "lightning": lightning.__version__,
        "accelerator": accelerator,
        "device": device,
        "threads": torch.get_num_threads(),
    } | together
