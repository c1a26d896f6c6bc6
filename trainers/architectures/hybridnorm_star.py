"""HybridNorm*: as HybridNorm, but block 0 is Pre-LN: x + A(N(x)), then y + FFN(N(y)); a final norm.

Source: Zhuo et al., arXiv 2503.04598, section 3, the variant with a special first block. q, k and v are normalised per
head in every block, the first one included.
Init: plain. Watch: as HybridNorm, an FFN's output enters the next attention raw, from the second block on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Affine, Architecture, Site


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * (blocks + 2) + 3 * blocks * (model.width // model.heads)


DECLARATION = Declaration(
    name="hybridnorm_star",
    title="HybridNorm*",
    source="arXiv 2503.04598, section 3",
    parameters=_parameters,
    row=9,
    ignores=("qk_norm",),
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """HybridNorm* at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture, BranchOptions

    def rule(site: Site) -> Affine:
        if site.block == 0:
            return Affine(pre=RMSNorm)
        return Affine(post=RMSNorm if site.is_attention else None)

    return Architecture(rule=rule, exit=RMSNorm, branch_options=BranchOptions(head_norm="qkv"))
