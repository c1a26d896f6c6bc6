"""RMSNorm, computed in at least fp32 whatever the autocast."""

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
