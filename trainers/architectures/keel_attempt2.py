"""Keel's second attempt, a learnt vector before the branch: x' = N(alpha x + F(beta * x)), alpha = L.

Source: Chen and Wei, arXiv 2601.19895v1, section 4.2. In the first block, as in Keel, attention is x + F(beta * x) and
the FFN N(x + F(beta * x)); `exemption: false` gives it alpha and the norm like the rest.
Init: beta of ones, so that it starts as attempt 1; like a gain it takes no weight decay. Watch: beta has to grow for a
branch to count beside alpha x, and it moves by about the learning rate a step.
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
    name="keel_attempt2",
    title="Keel, attempt 2",
    source="arXiv 2601.19895v1, section 4.2",
    parameters=_parameters,
    options={
        "alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True),
        "exemption": Option("flag", True, "first block without alpha, first attention without outer norm"),
    },
    row=7,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Attempt 2 at this depth."""
    from trainers.architectures.keel import shortcut
    from trainers.residual import Architecture, vector

    alpha, exempt = float(options["alpha"]), bool(options["exemption"])
    return Architecture(rule=lambda site: replace(shortcut(site, alpha, exempt), pre=vector))
