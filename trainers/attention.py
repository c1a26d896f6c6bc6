"""Causal grouped-query attention with rotary positions and optional per-head norms."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from trainers.norm import RMSNorm
from trainers.residual import BranchOptions


class Rotary(nn.Module):
    """Rotary position tables in the half-split layout, computed once and shared by all attention sub-layers.

    Pairs (i, i + head_width / 2) turn by position * theta^(-2 i / head_width) (Su et al., arXiv 2104.09864, eq. 15,
    with the pairing of LLaMA). The tables are computed in float64 and rounded once, to `dtype`; they are not saved.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, head_width: int, context: int, theta: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        half = head_width // 2
        frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
        cos, sin = angle.cos(), angle.sin()
        self.shift = half
        self.register_buffer("cos", torch.cat((cos, cos), dim=-1).to(dtype), persistent=False)
        self.register_buffer("sin", torch.cat((-sin, sin), dim=-1).to(dtype), persistent=False)

    def forward(self, x: Float[Tensor, "*batch heads time head"]) -> Float[Tensor, "*batch heads time head"]:
        """Turns each pair; the halves are swapped by `roll`, the sign of the swapped half sits in the sine table."""
        time = x.shape[-2]
        return torch.addcmul(x * self.cos[:time], x.roll(self.shift, dims=-1), self.sin[:time])


class Attention(nn.Module):
    """The attention branch: x -> O(softmax(q k^T / sqrt(head width), causal) v), without biases.

    The matrices q, k, v and o hold no values until `trainers.initialisation.initialise` fills them.

    Args:
        shape: width, heads, kv_heads, norm_eps and qk_norm are read.
        rotary: shared tables of the same head width.
        options: `head_norm` puts an RMSNorm on q and k, or q, k and v, per head and before RoPE, with one gain of head
            width shared by all heads (HybridNorm, arXiv 2503.04598, section 3). The shape's `qk_norm` does it for q
            and k where the options do not.

    Raises:
        UsageError: if the heads do not divide the width, kv_heads not the heads, or the head width is odd.
    """

    def __init__(self, shape: ModelSettings, rotary: Rotary, options: BranchOptions) -> None:
        super().__init__()
        self.head_width = head_width(shape)
        self.rotary = rotary
        inner, grouped = shape.heads * self.head_width, shape.kv_heads * self.head_width
        self.q = nn.Parameter(torch.empty(inner, shape.width))
        self.k = nn.Parameter(torch.empty(grouped, shape.width))
        self.v = nn.Parameter(torch.empty(grouped, shape.width))
        self.o = nn.Parameter(torch.empty(shape.width, inner))
        normed = {"none": "qk" if shape.qk_norm else "", "qk": "qk", "qkv": "qkv"}[options.head_norm]
        self.q_norm = RMSNorm(self.head_width, shape.norm_eps) if "q" in normed else None
        self.k_norm = RMSNorm(self.head_width, shape.norm_eps) if "k" in normed else None
        self.v_norm = RMSNorm(self.head_width, shape.norm_eps) if "v" in normed else None

    def forward(self, x: Float[Tensor, "*batch time width"]) -> Float[Tensor, "*batch time width"]:
        """Attends to the same and earlier positions."""
        q, k = self.queries_and_keys(x)
        v = self._heads(x, self.v, self.v_norm)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return functional.linear(mixed.transpose(-3, -2).flatten(-2), self.o)

    def queries_and_keys(
        self, x: Float[Tensor, "*batch time width"]
    ) -> tuple[Float[Tensor, "*batch heads time head"], Float[Tensor, "*batch kv_heads time head"]]:
        """What the attention logits are made of, rotated and, where the scheme asks for it, normalised."""
        return self.rotary(self._heads(x, self.q, self.q_norm)), self.rotary(self._heads(x, self.k, self.k_norm))

    def _heads(self, x: Tensor, matrix: Tensor, norm: RMSNorm | None) -> Float[Tensor, "*batch heads time head"]:
        flat = functional.linear(x, matrix)
        heads = flat.view(*flat.shape[:-1], -1, self.head_width).transpose(-3, -2)
        return heads if norm is None else norm(heads)


def head_width(shape: ModelSettings) -> int:
    """Width of one head.

    Raises:
        UsageError: if the shape is impossible.
    """
    if shape.width % shape.heads:
        raise UsageError(f"model.heads: found {shape.heads}; must divide model.width = {shape.width}")
    if shape.heads % shape.kv_heads:
        raise UsageError(f"model.kv_heads: found {shape.kv_heads}; must divide model.heads = {shape.heads}")
    width = shape.width // shape.heads
    if width % 2:
        raise UsageError(f"model.heads: found {shape.heads}; width / heads = {width} must be even, as RoPE turns pairs")
    return width
