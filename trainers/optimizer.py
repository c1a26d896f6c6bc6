"""The optimizers, with decay on matrices only."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from keel_lab.settings import TrainSettings
from trainers.initialisation import ParameterGroup, decay_groups
from trainers.joined_optimizer import JoinedOptimizer


def optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """The optimizer that a trial asks for; its LR is set before every step, see `set_lr`.

    Muon's groups come with `adjust_lr_fn="match_rms_adamw"` (arXiv 2502.16982, section 2.2), so that one LR means about
    the same for its matrices and for what AdamW updates beside them: embedding, head, vectors and stacks of experts.
    """
    match settings.optimizer:
        case "adamw":
            return _adamw(decay_groups(model.parameters(), settings.weight_decay), settings)
        case "sgd":
            return torch.optim.SGD(
                decay_groups(model.parameters(), settings.weight_decay),  # type: ignore[arg-type]
                lr=0.0,
                momentum=settings.momentum,
                nesterov=settings.nesterov and settings.momentum > 0,  # without momentum there is nothing to look ahead
            )
        case "lion":
            from lion_pytorch import Lion

            groups = decay_groups(model.parameters(), settings.weight_decay)
            lion: torch.optim.Optimizer = Lion(groups, lr=1.0, betas=settings.betas)  # it refuses 0
            return lion
        case "muon":
            return _muon(model, settings)


def _adamw(groups: list[ParameterGroup], settings: TrainSettings) -> torch.optim.AdamW:
    """Fused: a third of the time of the foreach form on a CPU with many small matrices."""
    return torch.optim.AdamW(groups, lr=0.0, betas=settings.betas, eps=settings.eps, fused=True)  # type: ignore[arg-type]


def _muon(model: nn.Module, settings: TrainSettings) -> JoinedOptimizer:
    hidden = [p for name, p in model.named_parameters() if "branches." in name and p.ndim == 2]
    chosen = {id(p) for p in hidden}
    rest: Iterable[nn.Parameter] = (p for p in model.parameters() if id(p) not in chosen)
    muon = torch.optim.Muon(
        hidden,
        lr=0.0,
        weight_decay=settings.weight_decay,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        ns_steps=settings.ns_steps,
        adjust_lr_fn="match_rms_adamw",
    )
    return JoinedOptimizer([muon, _adamw(decay_groups(rest, settings.weight_decay), settings)])


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Sets the LR of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr
