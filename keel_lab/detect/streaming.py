"""The streaming detector (DESIGN section 6): causal, O(1) time and memory a step, plain floats.

What it does with every step:

1. Not finite (read on the raw step): loss NaN or Inf, grad_norm +-Inf, `skipped`, or weights not finite. A NaN grad_norm alone means
   "unknown" (see `Step`) and is no event. No comparison below ever sees a NaN: such a step counts as the largest excess allowed.
2. y, the paired loss where the data gives it, is held against the best level so far (`keel_lab.detect.level`).
3. CUSUM <- max(0, CUSUM + excess - slack), the excess in sigma and cut at +-cap. A second one with a smaller slack dates the onset.
4. healthy -> suspect when the CUSUM crosses the alarm; -> healthy again (a transient) when the level is regained; -> diverged when it
   is not within `confirm_samples`. Diverged is final.

Where the unigram level H1 is known, a curve that has not yet learned (never below H1) is only suspect above H1 + band: a model that
idles at H1 has no level to lose. It is stagnation at its end.
"""

from __future__ import annotations

import math

from keel_lab.curve import Step
from keel_lab.detect.conclusion import Onset, conclude
from keel_lab.detect.level import MIN_SAMPLES, Baseline
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, State, Verdict

_KEPT_TRANSIENTS = 20  # memory stays constant; all are counted


class StreamingDetector:
    """Watches one curve, a step at a time.

    Args:
        thresholds: see there.
        unigram_entropy: H1 in nats; without it there is no pairing, no stagnation and no collapse.
    """

    __slots__ = (
        "_alarm_sigma",
        "_buffer",
        "_cap",
        "_gain",
        "_h1",
        "_idle_level",
        "_lr",
        "_now",
        "_onset_slack",
        "_slack",
        "alarm",
        "baseline",
        "blown_up",
        "ceiling",
        "confirmed_step",
        "cusum",
        "finite_run",
        "first_step",
        "last_y",
        "learned",
        "nonfinite_onset",
        "nonfinite_run",
        "nonfinite_steps",
        "onset",
        "paired_steps",
        "rising",
        "samples",
        "smooth",
        "state",
        "since_alarm",
        "thresholds",
        "trace",
        "transient_count",
        "transients",
        "verdict_at_confirmation",
    )
