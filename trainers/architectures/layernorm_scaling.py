"""LayerNorm Scaling: x' = x + F(N(x) / sqrt(b + 1)) in block b counted from 0, with a final norm.

Source: Sun et al. (The Curse of Depth), arXiv 2502.05795, whose layers are blocks: both sub-layers of a block share its
factor.
Init: plain. Watch: a branch is not linear, so this is no factor on the branch: softmax and gate change with it too, and
qk_norm undoes it for q and k.
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
    return model.width * (2 * blocks + 1)


DECLARATION = Declaration(
    name="layernorm_scaling",
    title="LayerNorm Scaling",
    source="arXiv 2502.05795",
    parameters=_parameters,
    row=14,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """LayerNorm Scaling at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    return Architecture(rule=lambda site: Affine(pre=RMSNorm, scale=(site.block + 1) ** -0.5), exit=RMSNorm)
