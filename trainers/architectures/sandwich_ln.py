"""Sandwich-LN: x' = x + N2(F(N1(x))), with a final norm.

Source: Ding et al. (CogView), arXiv 2105.13290, section 2.4.
Init: plain. Watch: as Peri-LN, but the embedding enters raw: with init_std 0.02 it is fifty times weaker than the first
branch, which N2 brings to unit variance.
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
    return model.width * (4 * blocks + 1)


DECLARATION = Declaration(
    name="sandwich_ln",
    title="Sandwich-LN",
    source="arXiv 2105.13290, section 2.4",
    parameters=_parameters,
    row=13,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Sandwich-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    return Architecture(rule=lambda site: Affine(pre=RMSNorm, mid=RMSNorm), exit=RMSNorm)
