"""DeepNorm: x' = N(alpha x + F(x)), alpha = (2M)^(1/4) = L^(1/4) for M blocks, with smaller initial branches.

Source: Wang et al., arXiv 2203.00555, sections 4.1 and 4.2 (decoder-only column of Figure 2).
Init: beta = (8M)^(-1/4) = (4L)^(-1/4) on v, o and the FFN's matrices; q and k are untouched. The FFN of the source has
two matrices; of SwiGLU's three, gate, up and down are all scaled. The Keel paper (arXiv 2601.19895) states
beta = L^(-1/4): that variant is `beta: keel_paper`. Of a MoE's matrices the experts' count as the FFN's.
Watch: beta shrinks the branch by beta^2 at attention and beta^3 at SwiGLU, so with init_std 0.02 at a small width the
branches start very weak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Architecture

SCALED = ("v", "o", "gate", "up", "down")


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * 2 * blocks


DECLARATION = Declaration(
    name="deepnorm",
    title="DeepNorm",
    source="arXiv 2203.00555, sections 4.1 and 4.2",
    parameters=_parameters,
    options={
        "alpha": Option("rule", "L^0.25", "factor on the residual stream", low=0.0, open_low=True),
        "beta": Option(
            "rule",
            "(4L)^-0.25",
            "factor on the initial v, o and FFN matrices",
            low=0.0,
            open_low=True,
            names={"deepnet": "(4L)^-0.25", "keel_paper": "L^-0.25"},
        ),
    },
    row=1,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """DeepNorm at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture

    alpha, beta = float(options["alpha"]), float(options["beta"])
    return Architecture(
        rule=lambda site: Affine(post=RMSNorm, alpha=alpha),
        init_gain=dict.fromkeys(SCALED, beta),
    )
