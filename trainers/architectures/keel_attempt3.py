"""Keel's third attempt, vector and norm before the branch: x' = N(alpha x + F(beta * N0(x))), alpha = L.

Source: Chen and Wei, arXiv 2601.19895v1, section 4.2. N0 has no gain, and with the vector it is a norm that has one: so
this is Keel, written as the paper arrives at it, its first block included; `exemption: false` makes that like the rest.
Init: beta of ones. Watch: as Keel; only rounding tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from keel_lab.architecture import Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Architecture


def _parameters(model: ModelSettings, blocks: int, options: Mapping[str, OptionValue]) -> int:
    return model.width * (4 * blocks - bool(options["exemption"]))


DECLARATION = Declaration(
    name="keel_attempt3",
    title="Keel, attempt 3",
    source="arXiv 2601.19895v1, section 4.2",
    parameters=_parameters,
    options={
        "alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True),
        "exemption": Option("flag", True, "first block without alpha, first attention without outer norm"),
    },
    row=8,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Attempt 3 at this depth."""
    from torch import nn

    from trainers.architectures.keel import shortcut
    from trainers.norm import BareNorm, Factor
    from trainers.residual import Architecture

    alpha, exempt = float(options["alpha"]), bool(options["exemption"])

    def scaled_norm(width: int, eps: float) -> nn.Module:
        return nn.Sequential(BareNorm(width, eps), Factor(width))

    return Architecture(rule=lambda site: replace(shortcut(site, alpha, exempt), pre=scaled_norm))
