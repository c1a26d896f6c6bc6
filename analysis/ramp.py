"""A ramp in words and numbers: its shape and slope, without which a Max LR means little."""

from __future__ import annotations

import math

from keel_lab.settings import RampSchedule
from keel_lab.spec.label import label_text


def slope(ramp: RampSchedule) -> float:
    """How fast the LR rises: LR per step if linear, decades per step if log."""
    if ramp.shape == "linear":
        return (ramp.peak_lr - ramp.from_lr) / ramp.steps
    return math.log10(ramp.peak_lr / ramp.from_lr) / (ramp.steps - 1)


def slope_unit(ramp: RampSchedule) -> str:
    """The unit of `slope`."""
    return "LR/step" if ramp.shape == "linear" else "decades/step"


def title(ramp: RampSchedule) -> str:
    """`log ramp 1e-4 to 0.1 in 600 steps`."""
    return f"{ramp.shape} ramp {label_text(ramp.from_lr)} to {label_text(ramp.peak_lr)} in {ramp.steps} steps"


def describe(ramp: RampSchedule) -> str:
    """The ramp's title and its slope, in a clause."""
    if ramp.shape == "linear":
        return f"{title(ramp)}, {slope(ramp):.3g} LR a step"
    return f"{title(ramp)}, {slope(ramp):.3g} decades a step (a factor of {10 ** slope(ramp):.5g})"
