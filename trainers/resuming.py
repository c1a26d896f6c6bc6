"""Checkpoints across strategies: what one process, or DDP, has written goes on under FSDP2 too, and the other way."""

from __future__ import annotations

from pathlib import Path

import torch

from keel_lab.trial import Trial
from trainers.model import Transformer
from trainers.optimizer import optimizer


def as_fsdp_reads_it(file: Path, trial: Trial, model: Transformer, workdir: Path) -> Path:
    """The checkpoint with its optimizer's state numbered as Lightning's FSDP2 takes it, in the model's order.

    A plain optimizer numbers by its groups, matrices first, and is read back by place in them, whatever the numbers.
    Lightning reads a number as a place in the model: under plain ones each weight would get the moments of another.

    Args:
        file: the checkpoint.
        trial: says which optimizer.
        model: not split yet.
        workdir: where a changed copy goes.
    """
    places = {id(parameter): place for place, parameter in enumerate(model.parameters())}
    groups = optimizer(model, trial.train).param_groups
    wanted = [[places[id(parameter)] for parameter in group["params"]] for group in groups]
    checkpoint = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    (saved,) = checkpoint["optimizer_states"]
    found = [group["params"] for group in saved["param_groups"]]
    if found == wanted:
        return file
    renumbered = {
        old: new for olds, news in zip(found, wanted, strict=True) for old, new in zip(olds, news, strict=True)
    }
    saved["state"] = {renumbered[old]: state for old, state in saved["state"].items()}
    for group, places_of_group in zip(saved["param_groups"], wanted, strict=True):
        group["params"] = places_of_group
    target = workdir / "renumbered.ckpt"
    torch.save(checkpoint, target)
    return target
