"""Degradation: a curve without a spike that lies above its siblings at lower LR, same data, same step (section 6).

No level of the curve's own is lost, so it shows beside siblings only. The envelope is the sibling with the lowest level
at each step, and the gap to it is taken step by step: batches that are hard for one are hard for the other, so the gap
is much quieter than either curve. A gap counts from where it began to add up (a CUSUM's last zero), if its level
exceeds delta = max(`degradation_margin`, `degradation_confidence` standard errors) and it is not closed by the curve's
end. Closed at the end is no degradation, though the LR has decayed by then: the siblings' has as well, and a rate that
ends below all lower ones is no worse than they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keel_lab.curve import Step
from keel_lab.detect.envelope import WINDOW, Gap, Line
from keel_lab.detect.level import MIN_SAMPLES
from keel_lab.detect.noise import local_noise
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict

SIBLINGS = "siblings-1"  # raise when the same curves under the same thresholds would get another verdict
_SHORTEST = 4


@dataclass(frozen=True)
class Sibling:
    """A run on the same data in the same order, at another LR.

    Attributes:
        name: as the evidence calls it.
        steps: its curve; not necessarily logged at the same steps.
    """

    name: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Comparison:
    """A curve beside its siblings.

    Attributes:
        finding: `degraded`; `closed` if a gap was closed again; `short` if one is open at the end but for too few
            samples; `none`; `no_siblings` if none at a lower LR shares enough steps.
        onset_step: where the gap began, if degraded.
        last_good_step, last_good_lr: the step before it; None if the gap was there from the start.
        evidence: JSON-ready.
    """

    finding: Literal["degraded", "closed", "short", "none", "no_siblings"]
    onset_step: int | None = None
    last_good_step: int | None = None
    last_good_lr: float | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


def judge_beside(
    verdict: Verdict,
    steps: Sequence[Step],
    siblings: Sequence[Sibling],
    thresholds: Thresholds | None = None,
    unigram_entropy: float | None = None,
) -> Verdict:
    """The curve's verdict with its siblings known: degradation, if it was healthy or transient by itself.

    Args:
        verdict: of the curve by itself.
        steps: the curve, with known LRs.
        siblings: with known LRs; those at a higher or equal LR are left out, and the evidence says so.
        thresholds: the defaults if None.
        unigram_entropy: H1 in nats; where it and the batches' unigram loss are known, paired losses are compared.

    Raises:
        ValueError: if the curve or a sibling has no LR.
    """
    found = compare(steps, siblings, thresholds or Thresholds(), unigram_entropy)
    evidence = {**verdict.evidence, "siblings": {"finding": found.finding, **found.evidence}}
    if found.finding != "degraded" or verdict.status not in (Status.HEALTHY, Status.TRANSIENT):
        return replace(verdict, evidence=evidence)
    alone = {"detector": verdict.detector, "status": str(verdict.status), "rule": verdict.evidence.get("rule")}
    return Verdict(
        status=Status.DIVERGED,
        mode=Mode.DEGRADATION,
        onset_step=found.onset_step,
        last_good_step=found.last_good_step,
        last_good_lr=found.last_good_lr,
        learned=verdict.learned,
        evidence={**evidence, "rule": "above_siblings", "alone": alone},
        detector=SIBLINGS,
    )


def judge_before_onset(
    verdict: Verdict,
    steps: Sequence[Step],
    siblings: Sequence[Sibling],
    thresholds: Thresholds,
    unigram_entropy: float | None,
) -> Verdict:
    """As `judge_beside`, and a curve that diverged later on may have fallen behind its siblings before that.

    The earlier of the two is what modes 1+2+3 count; the gap is the more sensitive of the two, so it has to open some
    samples before. A curve that never had a good step stays what it is.
    """
    onset = verdict.onset_step
    if verdict.status is not Status.DIVERGED or onset is None or verdict.last_good_step is None:
        return judge_beside(verdict, steps, siblings, thresholds, unigram_entropy)
    found = judge_beside(replace(verdict, status=Status.HEALTHY), steps, siblings, thresholds, unigram_entropy)
    since = found.onset_step if found.mode is Mode.DEGRADATION else None
    if since is None or sum(since <= step.step < onset for step in steps) < WINDOW:
        return replace(verdict, evidence={**verdict.evidence, "siblings": found.evidence["siblings"]})
    alone = {**found.evidence["alone"], "status": str(verdict.status), "mode": str(verdict.mode)}
    return replace(found, evidence={**found.evidence, "alone": {**alone, "onset_step": verdict.onset_step}})


def compare(
    steps: Sequence[Step], siblings: Sequence[Sibling], thresholds: Thresholds, unigram_entropy: float | None
) -> Comparison:
    """Holds a curve against the lower envelope of its siblings at lower LR.

    Raises:
        ValueError: if the curve or a sibling has no LR.
    """
    own = Line(steps, unigram_entropy)
    used, left_out = {}, {}
    for sibling in siblings:
        line = Line(sibling.steps, unigram_entropy)
        why = _unusable(own, line, sibling.name)
        if why is None:
            used[sibling.name] = line
        else:
            left_out[sibling.name] = why
    evidence: dict[str, Any] = {"used": sorted(used), "left_out": left_out}
    if not used:
        return Comparison("no_siblings", evidence=evidence)
    gap = Gap(own, used)
    evidence["matched"] = "interpolated" if gap.interpolated else "common steps"
    if len(gap.values) < MIN_SAMPLES:
        return Comparison("no_siblings", evidence={**evidence, "why": f"under {MIN_SAMPLES} steps in common"})
    return _judged(gap, {step.step: step for step in steps}, thresholds, evidence)


def _unusable(own: Line, other: Line, name: str) -> str | None:
    """Why a sibling says nothing of the curve; None if it does."""
    if not own.steps or not other.steps:
        return "no finite sample"
    first, last = max(own.steps[0], other.steps[0]), min(own.steps[-1], other.steps[-1])
    if sum(first <= step <= last for step in own.steps) < MIN_SAMPLES:
        return f"under {MIN_SAMPLES} steps in common"
    mine, its = own.peak(first, last), other.peak(first, last)
    if not (math.isfinite(mine) and math.isfinite(its)):
        raise ValueError(
            f"{'the curve' if not math.isfinite(mine) else name} has no LR: siblings count at lower LR only"
        )
    return None if its < mine else f"its LR is {'higher' if its > mine else 'the same'}"


@dataclass
class _Open:
    """A gap that is open: since which sample, and whether its level has exceeded delta."""

    start: int
    trace: float = 0.0
    large: bool = False


def _judged(gap: Gap, by_step: dict[int, Step], thresholds: Thresholds, evidence: dict[str, Any]) -> Comparison:
    noise, n = local_noise(gap.values, thresholds.noise_floor), len(gap.values)
    now, closed, level, delta = _Open(0), 0, 0.0, math.inf
    for i, value in enumerate(gap.values):
        sigma = noise.sigma[i]
        slack = max(thresholds.onset_slack_sigma * sigma, 0.25 * thresholds.degradation_margin)
        now.trace += min(value, thresholds.cap_sigma * sigma) - slack
        first = max(now.start, i + 1 - WINDOW)
        level = _robust_mean(gap.values[first : i + 1], thresholds.cap_sigma * sigma)
        error = noise.error[i] / math.sqrt(i + 1 - first)
        delta = max(thresholds.degradation_margin, thresholds.degradation_confidence * error)
        now.large = now.large or (i + 1 - first >= _SHORTEST and level > delta)
        shut = i + 1 - first == WINDOW and level <= 0.5 * thresholds.degradation_margin
        if now.trace <= 0.0 or shut:
            closed += now.large
            now = _Open(i + 1)
    wanted = min(thresholds.confirm_samples, max(MIN_SAMPLES, n // 2))
    numbers = {"level_above": level, "delta": delta, "sigma_of_gap": noise.sigma[-1], "gaps_closed": closed}
    evidence = {**evidence, **numbers, "samples": n, "samples_needed": wanted}
    if not now.large:
        return Comparison("closed" if closed else "none", evidence=evidence)
    mean = math.fsum(gap.values[now.start :]) / (n - now.start)
    evidence |= {"above_from": gap.steps[now.start], "samples_above": n - now.start, "mean_above": mean}
    evidence["envelope"] = sorted(set(gap.names[now.start :]))
    if level <= thresholds.degradation_margin:
        return Comparison("closed", evidence=evidence)
    if n - now.start < wanted or mean <= thresholds.degradation_margin:
        return Comparison("short", evidence=evidence)
    bad = gap.steps[now.start]
    good = by_step[gap.steps[now.start - 1]] if now.start else None
    lr = None if good is None or not math.isfinite(good.lr) else good.lr
    evidence["onset_interval"] = [None if good is None else good.step, bad]
    return Comparison("degraded", bad, None if good is None else good.step, lr, evidence)


def _robust_mean(values: Sequence[float], reach: float) -> float:
    middle = sorted(values)[len(values) // 2]
    return math.fsum(min(max(value, middle - reach), middle + reach) for value in values) / len(values)
