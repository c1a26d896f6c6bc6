"""Scaled Pre-LN, the control for alpha: x' = x + c F(N(x)), c = 1/L, with a final norm.

Source: none; it is here to be told apart from Keel, whose branches also count as 1/alpha beside the stream.
Init: plain. Watch: weak branches make any scheme stable for a trivial reason, so a Max LR of Keel's says something only
above this one's. c stays fixed; gradients of the branch's matrices are scaled by c too, which AdamW undoes but for eps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Architecture


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * (2 * blocks + 1)


DECLARATION = Declaration(
    name="pre_ln_scaled",
    title="Pre-LN scaled",
    source="keel_lab; the control for alpha",
    parameters=_parameters,
    options={
        "c": Option("rule", "1/L", "factor on the branch", low=0.0, open_low=True),
    },
    row=11,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Scaled Pre-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    factor = float(options["c"])
    return Architecture(rule=lambda site: Affine(pre=RMSNorm, gamma=factor), exit=RMSNorm)
