"""Highway: x' = t * F(x) + (1 - t) * x with t = sigmoid(T x + b), a dense gate at each sub-layer; no norms at all.

Source: Srivastava et al., arXiv 1505.00387, section 2, eq. 3.
Init: T as every matrix, b = -2 (section 2.2: a negative bias keeps the way open), so t is 0.12 at first. Watch: each
sub-layer has width^2 parameters more than elsewhere; of the embedding (1 - t)^L is left at the end, 2% at L = 32, and
the head reads the raw stream. The gate is computed in fp32: it multiplies the stream.
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
    return 2 * blocks * model.width * (model.width + 1)


DECLARATION = Declaration(
    name="highway",
    title="Highway",
    source="arXiv 1505.00387, section 2, eq. 3",
    parameters=_parameters,
    row=17,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Highway at this depth."""
    from trainers.residual import Architecture
    from trainers.steps import HighwayStep

    return Architecture(rule=lambda site: HighwayStep)
