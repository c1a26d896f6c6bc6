"""The whole-curve detector (DESIGN section 6): the streaming detector's verdict, from a curve that is all there.

The same words, rules and thresholds; noise and levels are estimated from both sides of a sample, and the onset is the
least-squares change point between the best level and the alarm. Where it says otherwise than the streaming detector,
that one's verdict stands (`keel_lab.detect.agreement`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from keel_lab.curve import Step
from keel_lab.detect.conclusion import mode_at
from keel_lab.detect.level import MIN_SAMPLES
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.plateau import settles
from keel_lab.detect.rise import Rise, Samples, Search
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict

WHOLE = "whole-2"  # raise when the same curve under the same thresholds would get another verdict
_WINDOW = 16
_KEPT_TRANSIENTS = 20


def judge_whole(
    steps: Sequence[Step], thresholds: Thresholds | None = None, unigram_entropy: float | None = None
) -> Verdict:
    """The verdict of a whole curve.

    Args:
        steps: with rising step numbers.
        thresholds: the defaults if None.
        unigram_entropy: H1 in nats; without it there is no pairing, no stagnation and no collapse.

    Raises:
        ValueError: if the step index does not rise, or the unigram entropy is not finite.
    """
    if unigram_entropy is not None and not math.isfinite(unigram_entropy):
        raise ValueError(f"the unigram entropy must be finite, or None if unknown; got {unigram_entropy}")
    for before, after in pairwise(steps):
        if after.step <= before.step:
            raise ValueError(f"step {after.step} after step {before.step}: the index must rise; judge each run alone")
    return _Whole(steps, thresholds or Thresholds(), unigram_entropy).verdict()


def is_broken(step: Step) -> bool:
    """Whether loss, gradients or weights are not finite, or the update was skipped; a NaN grad_norm is unknown."""
    lost = step.skipped or not step.weights_finite or not math.isfinite(step.loss)
    return lost or math.isinf(step.grad_norm)


class _Whole:
    def __init__(self, steps: Sequence[Step], thresholds: Thresholds, h1: float | None) -> None:
        self._steps, self._thresholds, self._h1 = steps, thresholds, h1
        self._broken = [is_broken(step) for step in steps]
        self._end, self._end_rule = self._lost_to_non_finite()
        self._finite = [i for i in range(self._end) if not self._broken[i]]
        self._search: Search | None = None
        if len(self._finite) >= MIN_SAMPLES:
            self._look()

    def _lost_to_non_finite(self) -> tuple[int, str | None]:
        """Index of the first step of a non-finite run that is no transient, and the rule; else the curve's length."""
        run = 0
        for i, (step, broken) in enumerate(zip(self._steps, self._broken, strict=True)):
            run = run + 1 if broken else 0
            if not step.weights_finite:
                return i + 1 - run, "non_finite_weights"
            if run >= self._thresholds.nonfinite_in_a_row:
                return i + 1 - run, "non_finite_in_a_row"
        return (len(self._steps) - run, "non_finite_at_end") if run else (len(self._steps), None)

    def _look(self) -> None:
        first = paired_loss(*self._pair(self._finite[0]), self._h1)
        y: list[float] = []
        for i in range(self._end):
            held = y[-1] if y else first
            y.append(held if self._broken[i] else paired_loss(*self._pair(i), self._h1))
        samples = Samples(y, self._broken[: self._end], [step.lr for step in self._steps[: self._end]])
        self._search = Search(samples, self._thresholds, self._h1)

    def _pair(self, i: int) -> tuple[float, float]:
        return self._steps[i].loss, self._steps[i].unigram_loss

    def verdict(self) -> Verdict:
        rise = self._search.last if self._search else None
        if rise is not None and rise.end == "lost":
            return self._diverged("not_regained", self._mode(rise), rise.last_good, rise)
        if self._end_rule is not None:
            carried = rise is not None and rise.end in ("open", "blown_up") and rise.change != "break"
            last_good = rise.last_good if rise is not None and carried else self._end - 1
            return self._diverged(self._end_rule, Mode.NON_FINITE, last_good, rise)
        if self._search is None:
            return self._verdict(Status.UNDECIDED, "too_few_samples")
        if rise is not None and rise.end == "blown_up":
            return self._diverged("blown_up_at_end", Mode.IRRECOVERABLE, rise.last_good, rise)
        if self._learned is False:
            return self._diverged("never_learned", Mode.STAGNATION, None, None)
        if rise is not None:
            return self._verdict(Status.UNCONFIRMED, "suspect_at_end", None, rise.last_good, rise)
        if self._search.regained:
            return self._verdict(Status.TRANSIENT, "regained")
        return self._verdict(Status.HEALTHY, "no_alarm")

    @property
    def _learned(self) -> bool | None:
        if self._h1 is None:
            return None
        if self._search is not None:
            return self._search.learned_from < self._end
        level = self._h1 - self._thresholds.learned_margin
        pairs = map(self._pair, range(self._end))
        return None if any(paired_loss(loss, unigram, self._h1) < level for loss, unigram in pairs) else False

    def _mode(self, rise: Rise) -> Mode:
        assert self._search is not None
        last = min(len(self._search.x) - 1, rise.alarm + self._thresholds.confirm_samples)
        if any(self._broken[last - 2 : last + 1]):
            return Mode.NON_FINITE
        before = self._search.learned_from <= rise.alarm
        levels = (self._search.level(max(0, i - _WINDOW + 1), i) for i in range(rise.alarm, last + 1))
        if settles(levels, self._thresholds, self._h1 if before else None):
            return Mode.COLLAPSE
        level, error = self._search.level(last - _WINDOW + 1, last), self._search.noise.error[last] / 4.0
        return mode_at(level, error, self._thresholds, self._h1 if before else None)

    def _diverged(self, rule: str, mode: Mode, last_good: int | None, rise: Rise | None) -> Verdict:
        return self._verdict(Status.DIVERGED, rule, mode, last_good, rise)

    def _verdict(
        self,
        status: Status,
        rule: str,
        mode: Mode | None = None,
        last_good: int | None = None,
        rise: Rise | None = None,
    ) -> Verdict:
        quiet = status in (Status.HEALTHY, Status.TRANSIENT)
        onset = None if last_good is None else self._steps[last_good + 1].step
        if quiet:
            last_good = len(self._steps) - 1
        if last_good is None or last_good < 0 or self._learned is False:
            last_good = None
        good = None if last_good is None else self._steps[last_good]
        return Verdict(
            status=status,
            mode=mode,
            onset_step=onset,
            last_good_step=None if good is None else good.step,
            last_good_lr=None if good is None else _finite(good.lr),
            censored=quiet,
            learned=self._learned,
            evidence=self._evidence(rule, rise, None if quiet else onset, good),
            detector=WHOLE,
        )

    def _evidence(self, rule: str, rise: Rise | None, onset: int | None, good: Step | None) -> dict[str, Any]:
        search, steps = self._search, self._steps
        evidence: dict[str, Any] = {
            "rule": rule,
            "samples": len(self._broken) - sum(self._broken),
            "non_finite_steps": sum(self._broken),
            "onset_interval": None if onset is None else [None if good is None else good.step, onset],
            "unigram_entropy": self._h1,
        }
        if search is None:
            return evidence
        best = rise.best if rise is not None else search.best[-1]
        last = (
            len(search.x) - 1 if rise is None else min(len(search.x) - 1, rise.alarm + self._thresholds.confirm_samples)
        )
        starts = [steps[one.last_good + 1].step for one in search.regained]
        return evidence | {
            "best_level": _finite(best.level),
            "best_level_error": _finite(best.error),
            "best_steps": [steps[best.first].step, steps[best.last].step],
            "level": _finite(search.level(max(0, last - _WINDOW + 1), last)),
            "sigma": search.noise.sigma[best.last] if rise is None else rise.sigma,
            "alarm_step": None if rise is None else steps[rise.alarm].step,
            "change": None if rise is None else rise.change,
            "transients": len(starts),
            "transient_steps": starts[:_KEPT_TRANSIENTS],
        }


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
