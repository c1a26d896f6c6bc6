"""Peri-LN: x0 = N(embedding), x' = x + N2(F(N1(x))), with a final norm.

Source: Kim et al., arXiv 2502.02732, section 3.
Init: plain. Watch: N2 gives every branch unit variance from the first step on, whatever init_std, so the stream's
variance grows as 1 + L; the gradients of a branch's last matrix grow as that matrix gets smaller.
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
    return model.width * (4 * blocks + 2)


DECLARATION = Declaration(
    name="peri_ln",
    title="Peri-LN",
    source="arXiv 2502.02732, section 3",
    parameters=_parameters,
    row=12,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Peri-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    return Architecture(rule=lambda site: Affine(pre=RMSNorm, mid=RMSNorm), enter=RMSNorm, exit=RMSNorm)
