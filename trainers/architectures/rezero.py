"""ReZero: x' = x + g F(x), a learnt number g at each sub-layer that starts at 0; no norms at all.

Source: Bachlechner et al., arXiv 2003.04887, section 3.
Init: g = 0, so that the stack is the identity at first; matrices plain. Like a gain, g takes no weight decay. Watch: in
the first step only the gates of a sub-layer have a gradient; nothing bounds the stream, and the head reads it raw.
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
    return 2 * blocks


DECLARATION = Declaration(
    name="rezero",
    title="ReZero",
    source="arXiv 2003.04887, section 3",
    parameters=_parameters,
    row=16,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """ReZero at this depth."""
    from trainers.residual import Affine, Architecture, scalar

    return Architecture(rule=lambda site: Affine(mid=scalar(0.0)))
