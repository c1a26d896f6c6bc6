"""The feed-forward branch."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class SwiGLU(nn.Module):
    """x -> down(silu(gate x) * up x), without biases (Shazeer, arXiv 2002.05202, eq. 6).

    The matrices hold no values until `trainers.initialisation.initialise` fills them.
    """

    def __init__(self, width: int, ffn_width: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.empty(ffn_width, width))
        self.up = nn.Parameter(torch.empty(ffn_width, width))
        self.down = nn.Parameter(torch.empty(width, ffn_width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Acts on each position alone."""
        hidden = functional.silu(functional.linear(x, self.gate)) * functional.linear(x, self.up)
        return functional.linear(hidden, self.down)
