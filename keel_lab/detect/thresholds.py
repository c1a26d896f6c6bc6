"""Every threshold of the detectors, named, with its reason. They are not part of a trial's id."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from keel_lab.settings import Count, NonNegative, Positive, Settings


class Thresholds(Settings):
    """The `divergence` section of a sweep file (DESIGN section 6). A sigma is the noise of one sample, as estimated.

    Attributes:
        span_samples: memory of the smoothed excess that decides whether a level is regained; 20 follows a real
            recovery in some 20 samples and still averages the noise down to 0.2 sigma.
        slack_sigma: excess over the reference that costs nothing; half of the smallest step worth an alarm (2 sigma).
        alarm_sigma: CUSUM at which a curve is suspect. Healthy real curves stay below 7 (degraded ones below 19),
            simulated ones below 13, flat correlated ones below 31; a clear jump needs 14 samples.
        cap_sigma: samples are cut at this excess, so that a one-step spike of any height adds 3 and a two-step one 6.
        onset_slack_sigma: slack of the second CUSUM, whose last zero dates the onset. With slack 1 the onset of a
            creep is found twice as late; the onset of a jump moves by less than 2 samples. Too small an alarm, good
            for dating only.
        noise_floor: nats; below it differences are numerical or quantisation, whatever their own noise.
        noise_freeze_sigma: while the CUSUM is above this the noise is not re-estimated: a diverging curve must not
            excuse itself by its own chaos.
        level_cap_sigma: samples enter the level cut to this distance of it: two bad batches in a row (dips as much as
            spikes) move a four-sample mean by 1.5 sigma, within its confidence bound.
        best_confidence: least number of standard errors that the best level's upper bound lies above it. The bound
            grows as sqrt(2 ln n), since the best of n noisy levels is low by that much.
        regain_sigma: smoothed excess at which a level counts as regained; half way between "there" (0) and the slack
            (1).
        confirm_samples: samples after the alarm within which the level must be regained (DESIGN section 6).
        lr_decay: a level regained at an LR below this fraction of the onset's is not regained: the LR gave in, not
            the model.
        nonfinite_in_a_row: one skipped overflow is a transient; three in a row do not come from one batch.
        learned_margin: nats below the unigram level that count as having left it.
        learned_confidence: and standard errors below it; 4 is one false alarm in 30,000 levels.
        unigram_band: nats above the unigram level that still count as being at it. Collapsed models sit within 0.05
            of it at rest and bounce up to 0.1 above it at LR 0.1.
        collapse_samples: samples in a row at the unigram level, once a level is lost, that make it a collapse, wherever
            the loss goes as the LR rises on. On the tuning half of our corpus collapses stay there for 46 or more, runs
            that only pass on their way up for 28 at most.
        blowup_margin: nats above everything the curve started with: e^5 times less likely than by the untrained model.
        blowup_samples: blown-up samples in a row that raise the alarm at once, and that are a divergence, not an
            unconfirmed one, where the curve ends on them. Bad batches come one or two at a time.
        degradation_margin: nats above the siblings at lower LR that count as degradation; levels of healthy runs that
            differ in their initial weights only lie within 0.05 of each other.
        degradation_confidence: and standard errors above them; 4 as for `learned_confidence`.
    """

    span_samples: Annotated[int, Field(ge=2)] = 20
    slack_sigma: NonNegative = 1.0
    alarm_sigma: Positive = 40.0
    cap_sigma: Positive = 4.0
    onset_slack_sigma: NonNegative = 0.25
    noise_floor: Positive = 0.02
    noise_freeze_sigma: Positive = 10.0
    level_cap_sigma: Positive = 3.0
    best_confidence: NonNegative = 3.0
    regain_sigma: NonNegative = 0.5
    confirm_samples: Count = 100
    lr_decay: Annotated[float, Field(ge=0, le=1)] = 0.5
    nonfinite_in_a_row: Count = 3
    learned_margin: Positive = 0.1
    learned_confidence: NonNegative = 4.0
    unigram_band: Positive = 0.2
    collapse_samples: Count = 40
    blowup_margin: Positive = 5.0
    blowup_samples: Count = 5
    degradation_margin: Positive = 0.1
    degradation_confidence: NonNegative = 4.0
