"""Admin: x' = N(omega * x + F(x)), a learnt vector omega at each sub-layer, set by profiling one batch.

Source: Liu et al., arXiv 2004.08249, section 4.3. omega_0 = 1 and omega_{l+1}^2 = Var(omega_l * x_l) + Var(F_l(x_l)),
variances over the whole tensor, one sub-layer after another on the stream that the earlier ones, already set, give.
Init: plain matrices. omega is profiled on the inputs of the run's first update, in fp32 on the CPU before anything
moves to a device, hence the same on every rank; it is trained, takes no weight decay, and is saved with the weights.
Watch: omega follows the embedding's scale. With init_std 0.02 at width 32 it is 0.02 to 0.03 from sub-layer 1 on, so
that weak branches still move the stream by a third (in Post-LN by under 1%), and AdamW, which moves it by the learning
rate a step, changes it fast; with `init_std: match_width` it grows from 0.4 to 1.5 over 16 blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration
from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.residual import Architecture, ResidualStack


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * 4 * blocks


DECLARATION = Declaration(
    name="admin",
    title="Admin",
    source="arXiv 2004.08249, section 4.3",
    parameters=_parameters,
    row=10,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Admin at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture, vector

    return Architecture(rule=lambda site: Affine(skip=vector, post=RMSNorm), calibrate=profile)


def profile(stack: ResidualStack, x: Tensor) -> None:
    """Sets every omega, in place.

    Args:
        stack: built by `build`, with its initial weights.
        x: x0 of one batch, (*batch, time, width).

    Raises:
        UsageError: if the batch gives a variance that is not finite.
    """
    from trainers.norm import Factor
    from trainers.residual import AffineStep

    omega = 1.0
    for index, (step, branch) in enumerate(zip(stack.steps, stack.branches, strict=True)):
        if not math.isfinite(omega):
            raise UsageError(f"model.init_std: at sub-layer {index}, profiling gives omega = {omega}; lower it")
        assert isinstance(step, AffineStep)
        assert isinstance(step.skip, Factor)
        step.skip.factor.fill_(omega)
        variances = (omega * x).var(correction=0) + branch(x).var(correction=0)
        omega = float(variances.sqrt())
        x = step(x, branch)
