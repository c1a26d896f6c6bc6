"""AdamW with decay on matrices only, and the one reading of the gradient norm."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from keel_lab.settings import TrainSettings
from trainers.initialisation import decay_groups


def adamw(model: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """The optimizer; its LR is set before every step, see `set_lr`.

    Fused: a third of the time of the foreach form on a CPU with many small matrices.
    """
    groups = decay_groups(model, settings.weight_decay)
    return torch.optim.AdamW(groups, lr=0.0, betas=settings.betas, eps=settings.eps, fused=True)  # type: ignore[arg-type]


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Sets the LR of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def gradient_norm(model: nn.Module) -> torch.Tensor:
    """Global 2-norm of all gradients, a scalar on their device; NaN or Inf if one of them is."""
    return get_total_norm([parameter.grad for parameter in model.parameters() if parameter.grad is not None])


def scale_to(model: nn.Module, largest: float, norm: torch.Tensor) -> None:
    """Scales all gradients, whose global norm is `norm`, to a global norm of `largest`.

    A norm that is not finite leaves gradients that are not finite.
    """
    clip_grads_with_norm_(model.parameters(), largest, norm)


def weights_finite(model: nn.Module) -> bool:
    """Whether every weight is finite; reads all of them."""
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())
