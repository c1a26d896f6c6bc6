"""HybridNorm: y = N(x + A(x)) with q, k and v normalised per head before RoPE; x' = y + FFN(y); a final norm.

Source: Zhuo et al., arXiv 2503.04598, section 3; its norm before and beside the FFN is written here at the attention's
end, which is the same function. The gains of the per-head norms are shared by the heads.
Init: plain, as in the Keel paper's comparison; the authors' code also shrinks o and down by 1/sqrt(L).
Watch: only half of the sub-layers are normalised, and only after attention, so an FFN's output enters the next one raw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Architecture


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * (blocks + 1) + 3 * blocks * (model.width // model.heads)


DECLARATION = Declaration(
    name="hybridnorm",
    title="HybridNorm",
    source="arXiv 2503.04598, section 3",
    parameters=_parameters,
    row=2,
    ignores=("qk_norm",),
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """HybridNorm at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture, BranchOptions

    return Architecture(
        rule=lambda site: Affine(post=RMSNorm if site.is_attention else None),
        exit=RMSNorm,
        branch_options=BranchOptions(head_norm="qkv"),
    )
