"""Mix-LN: the first floor(fraction * M) of M blocks are Post-LN, N(x + F(x)), the rest Pre-LN; a final norm.

Source: Li et al., arXiv 2412.13795, section 3, with their fraction of 0.25.
Init: plain. Watch: with fraction * M < 1 no block is Post-LN and the scheme is Pre-LN.
"""

from __future__ import annotations

import math
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
    name="mix_ln",
    title="Mix-LN",
    source="arXiv 2412.13795, section 3",
    parameters=_parameters,
    options={
        "fraction": Option("number", 0.25, "share of the blocks, from the first, that are Post-LN", low=0.0, high=1.0)
    },
    row=3,
)


def post_blocks(fraction: float, blocks: int) -> int:
    """floor(fraction * blocks), where a product that is whole but for rounding counts as whole (0.29 * 100 is 29)."""
    return math.floor(round(fraction * blocks, 9))


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Mix-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    first_pre = post_blocks(float(options["fraction"]), blocks)
    return Architecture(
        rule=lambda site: Affine(post=RMSNorm) if site.block < first_pre else Affine(pre=RMSNorm),
        exit=RMSNorm,
    )
