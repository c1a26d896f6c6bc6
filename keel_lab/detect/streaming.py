"""The streaming detector (DESIGN section 6): causal, O(1) time and memory a step, plain floats.

With every step:

1. Not finite, read on the raw step: loss NaN or Inf, grad_norm +-Inf, `skipped`, or weights not finite. A NaN grad_norm
   alone means "unknown" (see `Step`) and is no event. Such a step counts as the largest excess. No comparison ever sees
   a NaN but the one with an unknown LR, which reads "has not decayed".
2. y, the paired loss where the data gives it, is held against the best level so far (`keel_lab.detect.level`), in
   sigma, by a CUSUM; a second one with less slack dates the onset by its last zero (`keel_lab.detect.excursion`).
3. healthy -> suspect when the CUSUM crosses the alarm, on a step that is not finite, or after some blown-up samples
   in a row; -> healthy again (a transient) when the level is regained; -> diverged when it is not within
   `confirm_samples`. Diverged is final.

Where the unigram level H1 is known, a curve that has not learned yet (never was below H1) is suspect only above H1 +
band: a model that idles at H1 has no level to lose. It is stagnation at its end.
"""

from __future__ import annotations

import math

from keel_lab.curve import Step
from keel_lab.detect.conclusion import Facts, conclude, lost_mode
from keel_lab.detect.excursion import Excursion, Onset
from keel_lab.detect.level import MIN_SAMPLES, Baseline
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.plateau import Plateau
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, State, Status, Verdict

_KEPT_TRANSIENTS = 20  # all are counted; memory stays constant
_FRESH = 3  # finite samples that must follow one that is not before a level can be regained
_FEW = 32  # finite samples of which a level is made of no small part
_EARLY = 96  # until then the noise is learned up to the alarm: a flat, correlated start looks like a rise at first


class StreamingDetector:
    """Watches one curve, a step at a time; `state` is its word now.

    Args:
        thresholds: see there.
        unigram_entropy: H1 in nats; without it there is no pairing, no stagnation and no collapse.

    Raises:
        ValueError: if the unigram entropy is not finite.
    """

    def __init__(self, thresholds: Thresholds, unigram_entropy: float | None = None) -> None:
        if unigram_entropy is not None and not math.isfinite(unigram_entropy):
            raise ValueError(f"the unigram entropy must be finite, or None if unknown; got {unigram_entropy}")
        self._thresholds = thresholds
        self._alarm, self._freeze = thresholds.alarm_sigma, thresholds.noise_freeze_sigma
        self._h1 = unigram_entropy
        self._learned = unigram_entropy is None  # unknown: every level counts as one that can be lost
        self._learned_step: int | None = None
        self._idle = -math.inf if unigram_entropy is None else unigram_entropy + thresholds.unigram_band
        self.state = State.WARMING
        self._baseline: Baseline | None = None
        self._excursion = Excursion(thresholds)
        self._buffer: list[tuple[int, float, float | None]] = []
        self._ceiling = math.inf
        self._samples = self._nonfinite_steps = self._nonfinite_run = self._finite_run = self._blown = 0
        self._step: int | None = None
        self._lr = math.nan
        self._onset = self._nonfinite_onset = self._excursion.onset
        self._alarm_step: int | None = None
        self._since_alarm = self._transient_count = 0
        self._transients: list[int] = []
        self._plateau = Plateau(thresholds, None)
        self._confirmed: Verdict | None = None

    @property
    def learned(self) -> bool | None:
        """Whether the curve has left the unigram level so far; None if that is not known yet, or H1 is not."""
        return None if self._h1 is None or self._baseline is None else self._learned

    def update(self, step: Step) -> State:
        """Takes in the next step.

        Raises:
            ValueError: if the step index does not rise (an appended log is the caller's to split).
        """
        number, loss, lr, unigram_loss, grad_norm, _, skipped, weights_finite, _ = step
        if self._step is not None and number <= self._step:
            raise ValueError(f"step {number} after step {self._step}: the index must rise; judge each run by itself")
        if self.state is not State.DIVERGED:
            infinite = grad_norm - grad_norm != 0.0 and grad_norm == grad_norm  # false for NaN
            if loss - loss != 0.0 or infinite or skipped or not weights_finite:
                self._nonfinite(number, lr, weights_finite)
            else:
                self._nonfinite_run = 0
                self._samples += 1
                y = paired_loss(loss, unigram_loss, self._h1)
                baseline = self._baseline
                if baseline is None:
                    self._warm(number, lr, y)
                else:
                    self._sample(baseline, number, lr, y)
            self._lr = lr
        self._step = number
        return self.state

    def verdict(self) -> Verdict:
        """The verdict as if the curve ended here."""
        if self._confirmed is not None:
            return self._confirmed
        if self._nonfinite_run:
            return self._conclude(Status.DIVERGED, "non_finite_at_end", Mode.NON_FINITE, self._nonfinite_start())
        if self.state is State.WARMING:
            return self._conclude(Status.UNDECIDED, "too_few_samples")
        if self.state is State.SUSPECT and self._blown >= self._thresholds.blowup_samples:
            return self._conclude(Status.DIVERGED, "blown_up_at_end", Mode.IRRECOVERABLE, self._onset)
        if self._has_learned() is None and self._h1 is not None:
            return self._conclude(Status.UNDECIDED, "too_few_to_have_learned")
        if self._has_learned() is False:
            return self._conclude(Status.DIVERGED, "never_learned", Mode.STAGNATION)
        if self.state is State.SUSPECT:
            return self._conclude(Status.UNCONFIRMED, "suspect_at_end", None, self._onset)
        if self._transient_count:
            return self._conclude(Status.TRANSIENT, "regained")
        return self._conclude(Status.HEALTHY, "no_alarm")

    def _warm(self, number: int, lr: float, y: float) -> None:
        """Keeps the first samples until their noise is known, then replays them."""
        self._buffer.append((number, lr, y))
        if self._samples < MIN_SAMPLES:
            return
        start = [value for _, _, value in self._buffer if value is not None]
        self._ceiling = max(start) + self._thresholds.blowup_margin
        self._baseline = baseline = Baseline(self._thresholds, start)
        self.state = State.HEALTHY
        for kept_number, kept_lr, value in self._buffer:
            if value is None:
                self._worst(kept_number, kept_lr)
            else:
                self._sample(baseline, kept_number, kept_lr, value)
        self._buffer.clear()

    def _sample(self, baseline: Baseline, number: int, lr: float, y: float) -> None:
        sigma, reference, onset_reference = baseline.sigma, baseline.reference, baseline.onset_reference
        learned = self._learned
        if not learned:
            idle = self._idle
            reference = idle if idle > reference else reference
            onset_reference = idle if idle > onset_reference else onset_reference
        cusum = self._excursion.add(y, sigma, reference, onset_reference, number, lr)
        alarm = self._alarm
        baseline.add(y, number, cusum < self._freeze or (cusum < alarm and baseline.count < _EARLY))
        self._finite_run += 1
        self._blown = self._blown + 1 if y > self._ceiling else 0
        if not learned:
            self._look_for_learning(baseline, number)
        if self.state is State.SUSPECT:
            self._plateau.add(baseline.level)
            self._settle(number, lr, baseline.short <= reference + self._thresholds.slack_sigma * sigma)
        elif cusum >= alarm or self._blown >= self._thresholds.blowup_samples:
            self._suspect(number)

    def _look_for_learning(self, baseline: Baseline, number: int) -> None:
        if self._h1 is not None and baseline.count >= MIN_SAMPLES and baseline.level < self._h1:
            margin = max(self._thresholds.learned_margin, self._thresholds.learned_confidence * baseline.level_error)
            self._learned = baseline.level < self._h1 - margin
            self._learned_step = number if self._learned else None

    def _nonfinite(self, number: int, lr: float, weights_finite: bool) -> None:
        if self._nonfinite_run == 0:
            self._nonfinite_onset = Onset(self._step, self._lr, number, lr)
        self._nonfinite_run += 1
        self._nonfinite_steps += 1
        if not weights_finite:
            self._confirm("non_finite_weights", Mode.NON_FINITE, self._nonfinite_start(), number)
        elif self._nonfinite_run >= self._thresholds.nonfinite_in_a_row:
            self._confirm("non_finite_in_a_row", Mode.NON_FINITE, self._nonfinite_start(), number)
        elif self._baseline is None:
            self._buffer.append((number, lr, None))
        else:
            self._worst(number, lr)

    def _nonfinite_start(self) -> Onset:
        """Where a run of non-finite steps began: there, or where a rise began that had crossed the alarm."""
        risen = self.state is State.SUSPECT and self._excursion.cusum >= self._alarm
        return self._onset if risen else self._nonfinite_onset

    def _worst(self, number: int, lr: float) -> None:
        self._finite_run = 0
        healthy = self.state is State.HEALTHY
        # short of a clear rise, the noise before it is no part of what begins here
        self._excursion.add_worst(number, lr, anew=healthy and self._excursion.cusum < self._freeze)
        if self.state is State.SUSPECT:
            self._settle(number, lr, False)
        else:
            self._suspect(number)

    def _suspect(self, number: int) -> None:
        self.state = State.SUSPECT
        self._alarm_step, self._since_alarm = number, 0
        self._onset = self._excursion.onset
        self._plateau = Plateau(self._thresholds, self._h1 if self._learned else None)

    def _settle(self, number: int, lr: float, short_is_back: bool) -> None:
        """One sample later in a suspicion: regained, confirmed, or still open."""
        self._since_alarm += 1
        fresh = self._finite_run >= _FRESH
        decayed = lr < self._thresholds.lr_decay * self._onset.bad_lr
        if short_is_back and fresh and not decayed and self._excursion.smooth <= self._thresholds.regain_sigma:
            self._transient_count += 1
            if len(self._transients) < _KEPT_TRANSIENTS:
                self._transients.append(self._onset.bad_step)
            self._excursion.clear()
            self.state = State.HEALTHY
        elif self._since_alarm >= self._thresholds.confirm_samples:
            h1 = self._h1 if self._learned else None
            lost = lost_mode(self._baseline, self._thresholds, h1) if fresh else Mode.NON_FINITE
            if self._plateau.settled and fresh:
                lost = Mode.COLLAPSE
            self._confirm("not_regained", lost, self._onset, number)

    def _confirm(self, rule: str, mode: Mode, onset: Onset, number: int) -> None:
        self._confirmed = self._conclude(Status.DIVERGED, rule, mode, onset, number)
        self.state = State.DIVERGED

    def _has_learned(self) -> bool | None:
        """None if H1 is not known, or too few samples leave it open; no sample below H1 settles it."""
        if self._h1 is None:
            return None
        margin = self._thresholds.learned_margin
        if self._baseline is not None:
            return self._learned or self._ends_below(self._baseline, self._h1)
        below = any(y is not None and y < self._h1 - margin for *_, y in self._buffer)
        return None if below else False

    def _ends_below(self, baseline: Baseline, h1: float) -> bool | None:
        """Of a curve whose level is not below H1 yet: the level lags behind a loss that falls between few samples.

        The last two decide if both are clearly below; if they are below at all, so few samples leave it open.
        """
        below = h1 - baseline.latest
        if below > max(self._thresholds.learned_margin, self._thresholds.learned_confidence * baseline.error_sigma):
            return True
        return None if below > self._thresholds.learned_margin and baseline.count < _FEW else False

    def _conclude(
        self, status: Status, rule: str, mode: Mode | None = None, onset: Onset | None = None, at: int | None = None
    ) -> Verdict:
        facts = Facts(
            baseline=self._baseline,
            thresholds=self._thresholds,
            unigram_entropy=self._h1,
            learned=self._has_learned(),
            learned_step=self._learned_step,
            last_step=self._step,
            last_lr=self._lr,
            samples=self._samples,
            nonfinite_steps=self._nonfinite_steps,
            cusum=self._excursion.cusum,
            alarm_step=self._alarm_step,
            confirmed_step=at,
            transient_count=self._transient_count,
            transients=tuple(self._transients),
        )
        return conclude(facts, status, rule, mode, onset)
