"""Pre-LN: x' = x + F(N(x)), with a final norm.

Source: Xiong et al., arXiv 2002.04745, section 3; the main baseline of the Keel paper (arXiv 2601.19895).
Init: plain. Watch: the stream's variance grows with depth (as 1 + L for branches of unit variance), so that late
sub-layers change it less and less.
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
    name="pre_ln",
    title="Pre-LN",
    source="arXiv 2002.04745, section 3",
    parameters=_parameters,
    row=4,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Pre-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    return Architecture(rule=lambda site: Affine(pre=RMSNorm), exit=RMSNorm)
