"""Whether a divergence is reversible: a lower LR brings the level back, or the weights are past it (DESIGN section 6).

While the LR still rises nothing can regain its best level, so a confirmed rise may be no more than what that LR costs.
Two forks at a tenth of the LR tell: "now" starts where the run was stopped, "before" where it was last good. If "now"
comes down to "before", at the same steps and on the same batches, nothing was lost for good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keel_lab.curve import Step
from keel_lab.detect.envelope import Line
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Status, Verdict

REVERSAL = "forks-1"  # raise when the same curves under the same thresholds would get another verdict
TAIL = 50  # samples at the end of both forks that are compared: a level, after most of the way back


def judge_reversal(
    verdict: Verdict,
    trunk: Sequence[Step],
    now: Sequence[Step],
    before: Sequence[Step],
    thresholds: Thresholds,
    unigram_entropy: float | None,
) -> Verdict:
    """The verdict with only what cannot be undone counted as divergence.

    Args:
        verdict: diverged, of the trunk by itself.
        trunk: the curve that diverged.
        now: the fork from its end.
        before: the fork from its last good step.
        thresholds: see there.
        unigram_entropy: H1 in nats, for paired losses.

    Returns:
        The same if "now" stays above "before"; a censored transient at the trunk's last LR if it rejoins; undecided if
        "before" does not hold its own level, so that there is nothing to rejoin. The evidence has `reversal`.
    """
    a, b = Line(now, unigram_entropy), Line(before, unigram_entropy)
    common = [step for step in b.steps if step > trunk[-1].step and a.at(step) is not None][-TAIL:]
    best = verdict.evidence.get("best_level")
    facts: dict[str, Any] = {"samples": len(common)}
    if len(common) < TAIL // 2:
        broken = len(a.steps) < len(now) and len(b.steps) == len(before)
        facts["finding"] = "irreversible" if broken else "too short"
        return _concluded(verdict, facts) if broken else _open(verdict, facts)
    gap, error = _mean([a.at(step) - b.at(step) for step in common])  # type: ignore[operator]
    level, level_error = _mean([b.at(step) for step in common])  # type: ignore[misc]
    delta = max(thresholds.degradation_margin, thresholds.degradation_confidence * error)
    facts |= {"gap": gap, "delta": delta, "level_before": level, "level_now": level + gap, "best_level": best}
    lost = best is not None and level > best + max(thresholds.degradation_margin, 4.0 * level_error)
    if lost:
        facts["finding"] = "the fork from before does not hold its level"
        return _open(verdict, facts)
    if gap > delta:
        facts["finding"] = "irreversible"
        return _concluded(verdict, facts)
    facts["finding"] = "reversible"
    last = trunk[-1]
    return Verdict(
        status=Status.TRANSIENT,
        last_good_step=last.step,
        last_good_lr=last.lr,
        censored=True,
        learned=verdict.learned,
        evidence={**verdict.evidence, "rule": "rejoined at a tenth of the LR", "reversal": facts},
        detector=REVERSAL,
    )


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error; neighbours are alike, so that a quarter of the samples counts as independent."""
    n = len(values)
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / max(1, n - 1)
    return mean, 2.0 * math.sqrt(variance / n)


def _concluded(verdict: Verdict, facts: dict[str, Any]) -> Verdict:
    return replace(verdict, evidence={**verdict.evidence, "reversal": facts}, detector=REVERSAL)


def _open(verdict: Verdict, facts: dict[str, Any]) -> Verdict:
    evidence = {**verdict.evidence, "reversal": facts}
    return Verdict(Status.UNDECIDED, learned=verdict.learned, evidence=evidence, detector=REVERSAL)
