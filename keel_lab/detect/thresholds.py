"""Every threshold of the streaming detector, named, with its reason. They are not part of a trial's id."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from keel_lab.settings import Count, NonNegative, Positive, Settings


class Thresholds(Settings):
    """The `divergence` section of a sweep file (DESIGN section 6)."""

    span_samples: Annotated[int, Field(ge=2)] = 20
    slack_sigma: NonNegative = 1.0
    alarm_sigma: Positive = 40.0
    cap_sigma: Positive = 4.0
    noise_floor: Positive = 0.02
    confirm_samples: Count = 100
    nonfinite_in_a_row: Count = 3
    learned_margin: Positive = 0.1
