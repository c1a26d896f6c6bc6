"""Keel: x' = N1(alpha x + F(N2(x))), alpha = L, with a first block of its own.

Source: Chen and Wei, arXiv 2601.19895v1, section 3.1 and Figure 2. In the first block, attention is Pre-LN,
x + F(N2(x)), and the FFN has no alpha but keeps the outer norm, N1(x + F(N2(x))).
Options: `exemption: false` gives the first block alpha and both norms like the rest; `first_ffn_norm: false` drops the
outer norm of the first FFN (a widespread reading), with or without the exemption; `final_norm` adds a norm before the
head, which the last N1 makes unnecessary.
Init: plain. Watch: at init the first block's gradients are hundreds of times those of later sub-layers, whose branches
count as 1/alpha, so clipping by the global norm sees little else. A bf16 stream would lose the branch beside alpha x;
the stream stays fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Affine, Architecture, Site


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    missing = bool(options["exemption"]) + (not options["first_ffn_norm"])
    return model.width * (4 * blocks - missing + bool(options["final_norm"]))


DECLARATION = Declaration(
    name="keel",
    title="Keel",
    source="arXiv 2601.19895v1, section 3.1",
    parameters=_parameters,
    options={
        "alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True),
        "final_norm": Option("flag", False, "a further norm before the head"),
        "exemption": Option("flag", True, "first block without alpha, first attention without outer norm"),
        "first_ffn_norm": Option("flag", True, "the first FFN keeps its outer norm"),
    },
    row=5,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Keel at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine, Architecture, final_norm

    alpha, exempt, keeps_norm = float(options["alpha"]), bool(options["exemption"]), bool(options["first_ffn_norm"])

    def rule(site: Site) -> Affine:
        without_norm = (site.index == 0 and exempt) or (site.index == 1 and not keeps_norm)
        return Affine(
            pre=RMSNorm,
            post=None if without_norm else RMSNorm,
            alpha=1.0 if exempt and site.block == 0 else alpha,
        )

    return Architecture(rule=rule, exit=final_norm(bool(options["final_norm"])))
