"""Both detectors on one curve: the streaming verdict stands, its evidence holds the whole-curve detector's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keel_lab.curve import Step
from keel_lab.detect.siblings import Sibling, judge_beside
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Verdict
from keel_lab.detect.whole import judge_whole


def judge_curve(
    steps: Sequence[Step],
    thresholds: Thresholds | None = None,
    unigram_entropy: float | None = None,
    siblings: Sequence[Sibling] = (),
) -> Verdict:
    """The verdict of a stored curve: by itself with both detectors, then beside its siblings, if there are any.

    Args:
        steps: with rising step numbers.
        thresholds: the defaults if None.
        unigram_entropy: H1 in nats, or None if unknown.
        siblings: runs on the same data in the same order; those at lower LR count.

    Raises:
        ValueError: if the step index does not rise, or siblings are given and the curve or one of them has no LR.
    """
    thresholds = thresholds or Thresholds()
    detector = StreamingDetector(thresholds, unigram_entropy)
    for step in steps:
        detector.update(step)
    verdict = with_whole_curve(detector.verdict(), steps, thresholds, unigram_entropy)
    return judge_beside(verdict, steps, siblings, thresholds, unigram_entropy) if siblings else verdict


def with_whole_curve(
    verdict: Verdict, steps: Sequence[Step], thresholds: Thresholds, unigram_entropy: float | None
) -> Verdict:
    """The streaming verdict with the whole-curve detector's answer in its evidence.

    The evidence gains `detectors` (the answers of both, by name), `agree` (same status and mode) and, if they do not,
    `disagreement`, one sentence; and `onset_interval`, [last good step, first bad step], where there is an onset.
    """
    whole = judge_whole(steps, thresholds, unigram_entropy)
    agree = (whole.status, whole.mode) == (verdict.status, verdict.mode)
    evidence: dict[str, Any] = {
        **verdict.evidence,
        "detectors": {verdict.detector: _answer(verdict), whole.detector: _answer(whole)},
        "agree": agree,
        "onset_interval": None if verdict.onset_step is None else [verdict.last_good_step, verdict.onset_step],
    }
    if not agree:
        evidence["disagreement"] = (
            f"{verdict.detector} says {named(verdict)}, which stands; {whole.detector} says {named(whole)}"
        )
    return replace(verdict, evidence=evidence)


def named(verdict: Verdict) -> str:
    """`diverged (collapse)`, `healthy`."""
    return str(verdict.status) if verdict.mode is None else f"{verdict.status} ({verdict.mode})"


def _answer(verdict: Verdict) -> dict[str, Any]:
    evidence = verdict.evidence
    answer = {
        "status": str(verdict.status),
        "mode": None if verdict.mode is None else str(verdict.mode),
        "onset_step": verdict.onset_step,
        "last_good_step": verdict.last_good_step,
        "last_good_lr": verdict.last_good_lr,
    }
    return answer | {key: evidence.get(key) for key in ("rule", "best_level", "level", "sigma", "alarm_step")}
