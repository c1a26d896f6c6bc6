"""Keel's first attempt, the scaled shortcut alone: x' = N(alpha x + F(x)), alpha = L, with Keel's first block.

Source: Chen and Wei, arXiv 2601.19895v1, section 4.2. In the first block, as in Keel, attention is x + F(x) and the FFN
N(x + F(x)); `exemption: false` gives it alpha and the norm like the rest.
Init: plain. Watch: it is DeepNorm with alpha = L and without the smaller initial branches. The skip path carries
gradients through any depth, but a branch counts as 1/alpha and reads the stream as it is.
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
    return model.width * (2 * blocks - bool(options["exemption"]))


DECLARATION = Declaration(
    name="keel_attempt1",
    title="Keel, attempt 1",
    source="arXiv 2601.19895v1, section 4.2",
    parameters=_parameters,
    options={
        "alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True),
        "exemption": Option("flag", True, "first block without alpha, first attention without outer norm"),
    },
    row=6,
)


def build(blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
    """Attempt 1 at this depth."""
    from trainers.architectures.keel import shortcut
    from trainers.residual import Architecture

    alpha, exempt = float(options["alpha"]), bool(options["exemption"])
    return Architecture(rule=lambda site: shortcut(site, alpha, exempt))
