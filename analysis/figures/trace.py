"""One seed's curve as it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from analysis.readings import Reading
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Mode, Status
from keel_lab.plan.siblings import reference_of
from keel_lab.settings import RampSchedule


@dataclass(frozen=True)
class Trace:
    """One seed's curve as drawn: LR or step across, losses in nats up.

    Attributes:
        reference: paired loss of its reference at the same steps; empty without one.
        behind: where it falls behind its siblings, if it does so before it diverges by itself.
    """

    reading: Reading
    x: list[float]
    raw: list[float]
    paired: list[float]
    onset: float | None
    level: float | None
    reference: list[float]
    behind: float | None

    @property
    def main(self) -> list[float]:
        """The paired loss, or the raw one where the data gives no pairing."""
        return self.paired or self.raw


def traced(one: Reading, curves: Callable[[str], Curve], references: Collection[str]) -> Trace:
    """Of a finished trial; `curves` reads a curve by its trial's id, and `references` has those that were run."""
    assert one.result is not None
    assert one.verdict is not None
    curve = curves(one.planned.trial.id)
    ramped = isinstance(one.planned.trial.schedule, RampSchedule)
    x = [step.lr if ramped else float(step.step) for step in curve]
    level = one.result.data.get("unigram_entropy")
    bad = one.verdict.onset_step if one.verdict.status is Status.DIVERGED else None
    slow = one.degradation.onset_step if one.degradation and one.degradation.mode is Mode.DEGRADATION else None
    where = {step.step: at for at, step in zip(x, curve, strict=True)}
    beside = reference_of(one.planned.trial).id if ramped else ""
    reference = _paired(curves(beside), level)[: len(curve)] if beside in references else []
    raw = [step.loss for step in curve]
    return Trace(one, x, raw, _paired(curve, level), where.get(bad or 0), level, reference, where.get(slow or 0))


def _paired(curve: Curve, level: float | None) -> list[float]:
    if level is None or any(math.isnan(step.unigram_loss) for step in curve):
        return []
    return [step.loss - step.unigram_loss + level for step in curve]
