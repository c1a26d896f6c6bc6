"""From a detector's numbers to a verdict with its evidence: JSON-ready, every number finite or null."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from keel_lab.detect.excursion import Onset
from keel_lab.detect.level import Baseline
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict


@dataclass(frozen=True)
class Facts:
    """What a detector knows when it speaks.

    Attributes:
        baseline: None before the noise is known.
        learned: None if it cannot be told.
        learned_step: at which the unigram level was seen to be left.
        last_step, last_lr: of the last step before the one at hand, or of the curve.
        samples, nonfinite_steps: finite and other steps.
        transients: onsets of the first few transients; `transient_count` counts all.
    """

    baseline: Baseline | None
    thresholds: Thresholds
    unigram_entropy: float | None
    learned: bool | None
    learned_step: int | None
    last_step: int | None
    last_lr: float
    samples: int
    nonfinite_steps: int
    cusum: float
    alarm_step: int | None
    confirmed_step: int | None
    transient_count: int
    transients: tuple[int, ...]


def conclude(facts: Facts, status: Status, rule: str, mode: Mode | None, onset: Onset | None) -> Verdict:
    """The verdict that a rule comes to. A curve that never learned has no last good step."""
    evidence = _evidence(facts, rule)
    if onset is not None:
        good_step, good_lr, onset_step = onset.good_step, onset.good_lr, onset.bad_step
        evidence["onset_lr"] = _finite(onset.bad_lr)
    elif status in (Status.HEALTHY, Status.TRANSIENT):
        good_step, good_lr, onset_step = facts.last_step, facts.last_lr, None
    else:
        good_step, good_lr, onset_step = None, math.nan, None
    if facts.learned is False or good_step is None:
        good_step, good_lr = None, math.nan
    return Verdict(
        status=status,
        mode=mode,
        onset_step=onset_step,
        last_good_step=good_step,
        last_good_lr=_finite(good_lr),
        censored=status in (Status.HEALTHY, Status.TRANSIENT),
        learned=facts.learned,
        evidence=evidence,
    )


def lost_mode(baseline: Baseline | None, thresholds: Thresholds, unigram_entropy: float | None) -> Mode:
    """Collapse if a curve that had learned is at the unigram level now (None: not learned, or unknown)."""
    if baseline is None:
        return Mode.IRRECOVERABLE
    return mode_at(baseline.level, baseline.level_error, thresholds, unigram_entropy)


def mode_at(level: float, level_error: float, thresholds: Thresholds, unigram_entropy: float | None) -> Mode:
    """Collapse if the level that a rise led to is the unigram level (None: not learned before, or unknown)."""
    if unigram_entropy is None:
        return Mode.IRRECOVERABLE
    error = thresholds.learned_confidence * level_error
    low = unigram_entropy - max(thresholds.learned_margin, error)
    high = unigram_entropy + max(thresholds.unigram_band, error)
    return Mode.COLLAPSE if low <= level <= high else Mode.IRRECOVERABLE


def _evidence(facts: Facts, rule: str) -> dict[str, Any]:
    baseline = facts.baseline
    return {
        "rule": rule,
        "samples": facts.samples,
        "non_finite_steps": facts.nonfinite_steps,
        "best_level": None if baseline is None else _finite(baseline.best),
        "best_level_error": None if baseline is None else _finite(baseline.best_error),
        "best_step": None if baseline is None else baseline.best_step,
        "reference": None if baseline is None else _finite(baseline.reference),
        "level": None if baseline is None else _finite(baseline.level),
        "level_error": None if baseline is None else _finite(baseline.level_error),
        "sigma": None if baseline is None else _finite(baseline.sigma),
        "cusum": _finite(facts.cusum),
        "alarm_step": facts.alarm_step,
        "confirmed_step": facts.confirmed_step,
        "transients": facts.transient_count,
        "transient_steps": list(facts.transients),
        "unigram_entropy": facts.unigram_entropy,
        "learned_step": facts.learned_step,
        "learned_margin": facts.thresholds.learned_margin,
    }


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
