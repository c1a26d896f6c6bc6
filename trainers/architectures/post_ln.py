"""Post-LN: x' = N(x + F(x)).

Source: Vaswani et al., arXiv 1706.03762, section 3.1; the first baseline of the Keel paper (arXiv 2601.19895, Table 1).
Init: plain. Watch: a norm divides the skip path by sqrt(1 + s^2), s the rms of the branch: 2^(-L/2) in all if s = 1. At
init_std 0.02 and small widths s is a few percent and nothing vanishes; in training branches grow along the stream, each
factor is 1 / (1 + s), and deep stacks stay at the unigram level (docs/results/gradient_flow).
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
    return model.width * (2 * blocks + bool(options["final_norm"]))


DECLARATION = Declaration(
    name="post_ln",
    title="Post-LN",
    source="arXiv 1706.03762, section 3.1",
    parameters=_parameters,
    options={"final_norm": Option("flag", False, "a further norm before the head")},
    row=0,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Post-LN at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture, final_norm

    return Architecture(rule=lambda site: Affine(post=RMSNorm), exit=final_norm(bool(options["final_norm"])))
