"""Norms of gradients: read once an update, and held to the largest that the trial allows."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from keel_lab.settings import TrainSettings

_SUBLAYER = re.compile(r"stack\.(?:branches|steps)\.(\d+)\.")


class Clipping:
    """Clips by the norm of all gradients, or by that of each sub-layer: branch and norms, i.e. what it adds to L.

    Per sub-layer, embedding, head and what stands before or behind the stack are parts of their own: the large
    gradients of one part then shrink no other's.
    """

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        self._largest = math.inf if settings.clip_norm == "off" else settings.clip_norm
        parts: dict[str, list[nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            parts.setdefault(_part(name) if settings.clip == "per_sublayer" else "", []).append(parameter)
        self._parts = list(parts.values())

    def norms(self) -> Tensor:
        """2-norm of each part's gradients, over all ranks, on their device; NaN or Inf if one of them is."""
        norms = (get_total_norm([p.grad for p in part if p.grad is not None]) for part in self._parts)
        return torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms])

    def over(self, norms: list[float]) -> list[int]:
        """The parts whose norm is too large."""
        return [index for index, norm in enumerate(norms) if norm > self._largest]

    def scale(self, over: list[int], norms: Tensor) -> None:
        """Scales these parts' gradients to the largest norm; one that is not finite leaves them not finite."""
        for index in over:
            clip_grads_with_norm_(self._parts[index], self._largest, norms[index])


def whole_norm(norms: list[float]) -> float:
    """The norm of all gradients, from those of their parts; NaN wins over Inf."""
    if len(norms) == 1:
        return norms[0]
    return math.nan if any(map(math.isnan, norms)) else math.hypot(*norms)


def _part(name: str) -> str:
    match = _SUBLAYER.match(name)
    return f"sub-layer {match[1]}" if match else name.rpartition(".")[0] or name
