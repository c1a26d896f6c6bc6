"""RMSNorm, computed in at least fp32 whatever the autocast, and the learnt factors that stand beside it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


def at_least_fp32(x: Tensor) -> Tensor:
    """Half precisions become fp32; fp32 and float64 stay what they are."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class RMSNorm(nn.Module):
    """x * rsqrt(mean(x^2) + eps) * gain over the last axis, no bias (Zhang and Sennrich, arXiv 1910.07467, eq. 4).

    The result is in at least fp32: an outer norm is part of the residual stream, which must not be rounded to bf16, and
    a matmul under autocast rounds its own input.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalises the last axis."""
        return functional.rms_norm(at_least_fp32(x), self.gain.shape, self.gain, self.eps)


class BareNorm(nn.Module):
    """`RMSNorm` without its gain."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.width, self.eps = width, eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalises the last axis."""
        return functional.rms_norm(at_least_fp32(x), (self.width,), None, self.eps)


class Factor(nn.Module):
    """factor * x, with a learnt factor: one an entry of the last axis, or a single one for all.

    Like a gain it takes no weight decay, and the product is in at least fp32 even where autocast made x bf16.

    Args:
        entries: the width of x, or 1.
        start: the initial value of each.
    """

    def __init__(self, entries: int, start: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((entries,), start))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Multiplies."""
        return self.factor * x
