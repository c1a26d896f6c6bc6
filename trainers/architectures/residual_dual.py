"""ResiDual: two streams, x' = N(x + F(x)) and d' = d + F(x), from x_0 = d_0; the head reads x + N(d).

Source: Xie et al., arXiv 2304.14802, section 2: Post-LN's stream, whose branches also add up in a Pre-LN one.
Init: plain. Watch: d only gathers; gradients reach early sub-layers through it at any depth, while x alone decides what
a branch reads. d grows with depth, as in Pre-LN. The two streams stand on a new first axis of the stack's states.
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
    name="residual_dual",
    title="ResiDual",
    source="arXiv 2304.14802, section 2",
    parameters=_parameters,
    row=15,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """ResiDual at this depth."""
    from trainers.residual import Architecture
    from trainers.steps import BothStreams, DualExit, DualStep

    return Architecture(rule=lambda site: DualStep, enter=BothStreams, exit=DualExit)
