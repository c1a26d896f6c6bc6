"""Keel: x' = N1(alpha x + F(N2(x))), alpha = L, with a first block of its own.

Source: Chen and Wei, arXiv 2601.19895v1, section 3.1 and Figure 2. In the first block, attention is Pre-LN,
x + F(N2(x)), and the FFN has no alpha but keeps the outer norm, N1(x + F(N2(x))).
Options: `exemption: false` gives the first block alpha and both norms like the rest; `first_ffn_norm: false` drops the
outer norm of the first FFN (a widespread reading), with or without the exemption; `final_norm` adds a norm before the
head, which the last N1 makes unnecessary; `inner_norm: false` drops every N2. `alpha_profile` gives each sub-layer
l = 0 .. L-1 an alpha of its own: `rising` alpha (l + 1) / L, `falling` alpha (L - l) / L; `ffn_factor` multiplies it at
FFNs. `learnable_alpha` trains it: alpha a_l with a_l = 1 at first, one number a sub-layer, without weight decay.
Init: plain. Watch: at init the gradients of the first block's matrices are hundreds (width 1024, L = 64) to 40,000
(width 32, L = 1,024) times those of a later block, whose branches count as 1/alpha; of the global norm, by which is
clipped, it has 10 to 64% of the square, the embedding most of the rest (docs/results/gradient_flow). A bf16 stream
would lose the branch beside alpha x; the stream stays fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Affine, Architecture, Site


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    exempt = bool(options["exemption"])
    outer = 2 * blocks - exempt - (not options["first_ffn_norm"])
    inner = 2 * blocks * bool(options["inner_norm"])
    learnt = (2 * blocks - 2 * exempt) * bool(options["learnable_alpha"])
    return model.width * (outer + inner + bool(options["final_norm"])) + learnt


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
        "inner_norm": Option("flag", True, "the branch reads the normalised stream", later=True),
        "learnable_alpha": Option("flag", False, "alpha is trained, one number a sub-layer", later=True),
        "alpha_profile": Option(
            "choice",
            "flat",
            "how alpha moves with depth",
            choices=("flat", "rising", "falling"),
            later=True,
        ),
        "ffn_factor": Option("rule", 1.0, "factor on alpha at the FFNs", low=0.0, open_low=True, later=True),
    },
    row=5,
)


def alpha_at(index: int, sublayers: int, options: Mapping[str, OptionValue]) -> float:
    """The alpha of sub-layer `index`, counted from 0, by `alpha`, `alpha_profile` and `ffn_factor`."""
    share = {"flat": 1.0, "rising": (index + 1) / sublayers, "falling": (sublayers - index) / sublayers}
    factor = float(options["ffn_factor"]) if index % 2 else 1.0
    return float(options["alpha"]) * share[str(options["alpha_profile"])] * factor


def shortcut(site: Site, alpha: float, exempt: bool) -> Affine:
    """N1(alpha x + F(x)) with the paper's first block, or without it: what Keel and its attempts share."""
    from trainers.norm import RMSNorm
    from trainers.residual import Affine

    first = exempt and site.block == 0
    return Affine(post=None if first and site.is_attention else RMSNorm, alpha=1.0 if first else alpha)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Keel at this depth."""
    from trainers.norm import RMSNorm
    from trainers.residual import Architecture, final_norm, scalar

    exempt = bool(options["exemption"])

    def rule(site: Site) -> Affine:
        form = shortcut(site, alpha_at(site.index, site.sublayers, options), exempt)
        if site.index == 1 and not options["first_ffn_norm"]:
            form = replace(form, post=None)
        if options["learnable_alpha"] and not (exempt and site.block == 0):
            form = replace(form, skip=scalar(1.0))
        return replace(form, pre=RMSNorm if options["inner_norm"] else None)

    return Architecture(rule=rule, exit=final_norm(bool(options["final_norm"])))
