"""Initial weights, keyed by (init_seed, parameter name), and which parameters weight decay touches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from keel_lab.settings import ModelSettings


class ParameterGroup(TypedDict):
    """One parameter group of a torch optimizer."""

    params: list[nn.Parameter]
    weight_decay: float


def init_std(shape: ModelSettings) -> float:
    """Standard deviation of the initial matrices; `match_width` is 0.02 * sqrt(1024 / width).

    A matmul over the width then adds up to the same branch strength as 0.02 gives at the paper's width of 1024.
    `depth_scaled` is 0.02, or that with `match_width_depth_scaled`, but for what `init_gains` says of it.
    """
    if isinstance(shape.init_std, float):
        return shape.init_std
    return float(0.02 * (1024 / shape.width) ** 0.5) if shape.init_std.startswith("match_width") else 0.02


def init_gains(shape: ModelSettings, sublayers: int, own: Mapping[str, float]) -> dict[str, float]:
    """Factor on the initial weights by kind of matrix: the architecture's own, and L^-0.5 if the init is depth-scaled.

    That is on the matrices that write to the stream, o and down (GPT-2; Radford et al. 2019, section 2.3): L branches
    of such weights add to the stream what one adds without.
    """
    depth_scaled = isinstance(shape.init_std, str) and shape.init_std.endswith("depth_scaled")
    writing = dict.fromkeys(("o", "down"), sublayers**-0.5) if depth_scaled else {}
    return {kind: own.get(kind, 1.0) * writing.get(kind, 1.0) for kind in (*own, *writing)}


def initialise(model: nn.Module, seed: int, std: float, gains: Mapping[str, float]) -> None:
    """Fills every matrix with N(0, (gain * std)^2), in place; vectors keep the constants they were built with.

    The draw depends on (seed, parameter name, shape) alone, so at one seed all architectures start from the same
    weights wherever they have the same parameter, up to their `gains`.

    Args:
        model: its matrices, and stacks of matrices, are filled; it must not be on the meta device.
        seed: the trial's init_seed.
        std: see `init_std`.
        gains: factor by kind of matrix, i.e. by the last part of the parameter's name; absent = 1.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                factor = std * gains.get(name.rpartition(".")[2], 1.0)
                parameter.copy_(standard_normal(seed, name, parameter.shape).mul_(factor))


def standard_normal(seed: int, name: str, shape: Iterable[int]) -> Tensor:
    """An fp32 sample of N(0, 1) on the CPU from the stream of (seed, name).

    A 128-bit Philox key, because torch's CPU generator keeps 32 bits of its seed: with the thousands of matrices of a
    deep model, two would share a stream too easily.
    """
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
    generator = np.random.Generator(np.random.Philox(key=key))
    return torch.from_numpy(generator.standard_normal(tuple(shape), dtype=np.float32))


def decay_groups(given: Iterable[nn.Parameter], weight_decay: float) -> list[ParameterGroup]:
    """Two optimizer groups: matrices with weight decay; gains and vectors without."""
    parameters = list(given)
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
