"""Max LR over the seeds of a cell, and ratios between cells: order statistics that honour censoring.

A censored reading says only that the Max LR lies above it. A run that never learned has no Max LR at this slope: it is
counted and said, never given a number, and stands outside the median (an upper bound would need a run held at that LR).
Bootstrap intervals and ratios paired by seed belong here as well, beside `summarise` and `ratio_of`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from keel_lab.detect.max_lr import MaxLR

Kind = Literal["measured", "censored", "not_learned", "undecided", "failed", "not_run"]


@dataclass(frozen=True)
class Estimate:
    """What the seeds of one cell say together. LRs are dimensionless.

    Attributes:
        kind: `measured` or `censored` if there is a median, else why there is none.
        median: on log LR; with kind `censored` the median is above this.
        low, high: smallest and largest reading; with `censored` > 0 the largest Max LR is above `high`.
        planned: seeds of the cell.
        n: readings the median stands on, `measured + censored`.
        modes: (mode, how many diverged seeds), most frequent first.
    """

    kind: Kind
    median: float | None
    low: float | None
    high: float | None
    planned: int
    n: int
    measured: int
    censored: int
    not_learned: int
    undecided: int
    failed: int
    not_run: int
    modes: tuple[tuple[str, int], ...]

    @property
    def coverage(self) -> float | None:
        """How often a range over n seeds covers the true median; None for fewer than two readings."""
        return None if self.n < 2 else coverage(self.n)


@dataclass(frozen=True)
class Ratio:
    """Median over median; `above` or `below` when one of them is only known to be larger."""

    value: float
    kind: Literal["exact", "above", "below"]


def coverage(n: int) -> float:
    """Probability that [min, max] of n independent readings covers the true median: 1 - 2 * 0.5^n."""
    return 1.0 - 2.0 * 0.5**n


def log_median(measured: Sequence[float], censored: Sequence[float]) -> tuple[float, bool] | None:
    """The Kaplan-Meier median of right-censored LRs, on log LR.

    The product-limit estimate S falls at each measured LR by the fraction of those readings, measured or censored, that
    had got so far. The median is where S passes 1/2. Where S *is* 1/2 it is the middle, on log LR, of the two readings
    around, so that without censoring it is the ordinary median.

    Args:
        measured: LRs at which divergence set in.
        censored: LRs up to which nothing diverged.

    Returns:
        (LR, False), or (LR, True) if the median is only known to be above that LR; None without readings.
    """
    if not measured and not censored:
        return None
    survival, half, reached = Fraction(1), Fraction(1, 2), None
    for lr in sorted(set(measured)):
        at_risk = sum(other >= lr for other in (*measured, *censored))
        survival *= 1 - Fraction(list(measured).count(lr), at_risk)
        if reached is not None:  # S stood at exactly 1/2 since `reached`
            return math.sqrt(reached * lr), False
        if survival < half:
            return lr, False
        if survival == half:
            reached = lr
    last = max((*measured, *censored))
    return (last, True) if reached is None else (math.sqrt(reached * last), True)


def summarise(readings: Iterable[MaxLR], modes: Iterable[str], *, failed: int = 0, not_run: int = 0) -> Estimate:
    """Puts the seeds of one cell together.

    Args:
        readings: one a finished seed.
        modes: the mode of each diverged seed.
        failed: seeds whose every attempt so far failed.
        not_run: seeds without a result or a failure yet.
    """
    by_kind: dict[str, list[MaxLR]] = {"measured": [], "censored": [], "not_learned": [], "undecided": []}
    for one in readings:
        by_kind[one.kind].append(one)
    measured = [one.lr for one in by_kind["measured"] if one.lr is not None]
    censored = [one.lr for one in by_kind["censored"] if one.lr is not None]
    numbers, median = measured + censored, log_median(measured, censored)
    never = len(by_kind["not_learned"])
    undecided = sum(map(len, by_kind.values())) - len(numbers) - never
    kind: Kind = "not_learned" if never else "undecided" if undecided else "failed" if failed else "not_run"
    if median is not None:
        kind = "censored" if median[1] else "measured"
    return Estimate(
        kind=kind,
        median=None if median is None else median[0],
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        planned=len(numbers) + never + undecided + failed + not_run,
        n=len(numbers),
        measured=len(measured),
        censored=len(censored),
        not_learned=never,
        undecided=undecided,
        failed=failed,
        not_run=not_run,
        modes=tuple(sorted(Counter(modes).items(), key=lambda item: (-item[1], item[0]))),
    )


def ratio_of(cell: Estimate, reference: Estimate) -> Ratio | None:
    """Ratio of two medians; None if either is missing or both are censored, when nothing is known of it."""
    if cell.median is None or reference.median is None:
        return None
    value = cell.median / reference.median
    if cell.kind == reference.kind:
        return Ratio(value, "exact") if cell.kind == "measured" else None
    return Ratio(value, "above" if cell.kind == "censored" else "below")
