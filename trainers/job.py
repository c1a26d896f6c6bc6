"""The training job that `Trial.trainer` names by default: what keel_lab calls for each trial.

Importing this module costs no torch, so that a sweep can be checked at once; `run` imports the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keel_lab.errors import UsageError
from keel_lab.trial import NUMERICS, Trial
from trainers.data.sampler import LARGEST_SEED

if TYPE_CHECKING:
    from keel_lab.schedule.reporting import Report


def preflight(trial: Trial) -> None:
    """Refuses what this trainer cannot train, before anything runs.

    Raises:
        UsageError: naming the key, what was found and the remedy.
    """
    train, resources = trial.train, trial.resources
    if trial.numerics != NUMERICS:
        raise UsageError(
            f"trial {trial.id}: planned for numerics {trial.numerics}, this version of keel_lab computes numerics "
            f"{NUMERICS}, which gives other numbers; run the sweep file anew"
        )
    if trial.data is None:
        raise UsageError("data: missing; name a corpus, e.g. `data: {corpus: stdlib, tokenizer: bytes}`")
    if train.batch_size % train.accumulate:
        raise UsageError(
            f"train.accumulate: found {train.accumulate}; it must divide train.batch_size ({train.batch_size}), "
            "the number of sequences an update"
        )
    if resources.gpus > 1:
        raise UsageError(
            f"resources.gpus: found {resources.gpus:g}; a worker has one GPU at most: give 0 to 1, and more workers"
        )
    if resources.workers > 1:
        _together(trial)
    for key, seed in (("init_seed", trial.init_seed), ("data_seed", trial.data_seed)):
        if seed > LARGEST_SEED:
            raise UsageError(f"{key}: found {seed}; allowed: 0 to 2^64 - 1")


def _together(trial: Trial) -> None:
    """Refuses what several workers cannot share."""
    train, resources = trial.train, trial.resources
    if train.batch_size % (train.accumulate * resources.workers):
        raise UsageError(
            f"resources.workers: found {resources.workers}; workers x accumulate ({train.accumulate}) must divide "
            f"train.batch_size ({train.batch_size}), of which each worker gets its part"
        )
    if 0 < resources.gpus < 1:
        raise UsageError(
            f"resources.gpus: found {resources.gpus:g}; of several workers each needs a whole GPU, or none"
        )
    if resources.strategy == "fsdp" and train.optimizer == "muon":
        raise UsageError(
            "train.optimizer: found muon, which needs whole matrices, with strategy fsdp, which splits them; "
            "set strategy: ddp, or another optimizer"
        )


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Trains until `report` says stop; goes on from `report.resume` with the same numbers as if never stopped.

    Args:
        trial: what to train.
        workdir: scratch folder of this attempt.
        report: hears every step, see `keel_lab.schedule.reporting`.

    Raises:
        UsageError: if the trial cannot be trained here (no GPU, a shard of another corpus, too few tokens).
    """
    preflight(trial)
    from trainers.fitting import fit

    fit(trial, workdir, report)
