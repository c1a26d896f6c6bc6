"""The feed-forward branches."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from trainers.norm import at_least_fp32


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
        return _swiglu(x, self.gate, self.up, self.down)


class GELU(nn.Module):
    """x -> down(gelu(up x)), without biases; gelu is exact (Hendrycks and Gimpel, arXiv 1606.08415, section 2).

    The matrices hold no values until `trainers.initialisation.initialise` fills them.
    """

    def __init__(self, width: int, ffn_width: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(ffn_width, width))
        self.down = nn.Parameter(torch.empty(width, ffn_width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Acts on each position alone."""
        return functional.linear(functional.gelu(functional.linear(x, self.up)), self.down)


class MixtureOfExperts(nn.Module):
    """x -> sum over the top_k experts e of p_e SwiGLU_e(x), p = softmax(router x); no token is dropped.

    The p of several experts are made to sum to 1 (Jiang et al., arXiv 2401.04088, section 2.1); a single one keeps its
    p, as otherwise no gradient of the loss would reach the router (Fedus et al., arXiv 2101.03961, section 2.1). Router
    and sum are in at least fp32. The matrices hold no values until they are initialised.

    Args:
        width: of the stream.
        ffn_width: inner width of each expert.
        experts: how many there are.
        top_k: how many each token uses.

    Attributes:
        balance_loss: of the last forward pass: experts * sum_e (share of the choices that fell on e) * (mean p_e), 1 if
            all are used alike (arXiv 2101.03961, eq. 4). Shares are of the micro-batch.

    Raises:
        UsageError: if top_k is more than there are experts.
    """

    balance_loss: Tensor

    def __init__(self, width: int, ffn_width: int, experts: int, top_k: int) -> None:
        super().__init__()
        if top_k > experts:
            raise UsageError(f"model.top_k: found {top_k}; must be at most model.experts = {experts}")
        self.top_k = top_k
        self.router = nn.Parameter(torch.empty(experts, width))
        self.gate = nn.Parameter(torch.empty(experts, ffn_width, width))
        self.up = nn.Parameter(torch.empty(experts, ffn_width, width))
        self.down = nn.Parameter(torch.empty(experts, width, ffn_width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Acts on each position alone."""
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen, counts = self._route(tokens)
        order = chosen.flatten().argsort(stable=True)  # choices by expert
        rows = order // self.top_k
        parts = zip(torch.split(tokens[rows], counts), self.gate, self.up, self.down, strict=True)
        outputs = torch.cat([_swiglu(*part) for part in parts])
        weighted = weights.flatten()[order].unsqueeze(-1) * outputs
        return torch.zeros_like(tokens, dtype=weighted.dtype).index_add(0, rows, weighted).view(x.shape)

    def _route(self, tokens: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """Weights and indices of each token's experts, (tokens, top_k), and how many choices fell on each expert.

        Leaves the load-balancing loss behind.
        """
        with torch.autocast(tokens.device.type, enabled=False):
            probabilities = functional.linear(at_least_fp32(tokens), self.router).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k)
        counts = chosen.flatten().bincount(minlength=len(self.router))
        shares = counts / chosen.numel()
        self.balance_loss = len(self.router) * (shares * probabilities.mean(0)).sum()
        weights = weights / weights.sum(-1, keepdim=True) if self.top_k > 1 else weights
        return weights, chosen, counts.tolist()


def feedforward(shape: ModelSettings) -> nn.Module:
    """The FFN that a shape asks for.

    Raises:
        UsageError: see `MixtureOfExperts`.
    """
    if shape.ffn == "moe":
        return MixtureOfExperts(shape.width, shape.ffn_width, shape.experts, shape.top_k)
    return {"swiglu": SwiGLU, "gelu": GELU}[shape.ffn](shape.width, shape.ffn_width)


def _swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return functional.linear(functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down)
