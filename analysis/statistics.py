"""Max LR over the seeds of a cell: its median on log LR, what is known of it, and what became of every seed.

A run that never learned has no Max LR at this slope: it is counted and said, never given a number, and stands outside
the median (an upper bound would need a run held at that LR).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.censored import Bounds, median
from analysis.intervals import Interval, interval
from analysis.seed_reading import SeedReading

Kind = Literal["measured", "censored", "below", "not_learned", "undecided", "failed", "not_run"]


@dataclass(frozen=True)
class Estimate:
    """What the seeds of one cell say together. LRs are dimensionless.

    Attributes:
        kind: `measured`, `censored` or `below` if there is a median, else why there is none.
        bounds: of the median; None if there is none.
        interval: the median's 90% interval; None where there can be none, see `intervals.interval`.
        low: smallest reading; with `below` > 0 the smallest Max LR is below it.
        high: largest reading; with `censored` > 0 the largest Max LR is above it.
        planned: seeds of the cell.
        n: readings the median stands on, `measured + censored + below`.
        clusters: distinct data seeds among them.
        modes: (mode, how many diverged seeds), most frequent first.
    """

    kind: Kind
    bounds: Bounds | None
    interval: Interval | None
    low: float | None
    high: float | None
    planned: int
    n: int
    clusters: int
    measured: int
    censored: int
    below: int
    not_learned: int
    undecided: int
    failed: int
    not_run: int
    modes: tuple[tuple[str, int], ...]

    @property
    def median(self) -> float | None:
        """The point that stands for `bounds`; with kind `censored` the median is above it, with `below` below."""
        return None if self.bounds is None else self.bounds.point

    @property
    def coverage(self) -> float | None:
        """How often, at least, the range covers the true median; None for fewer than two clusters of readings."""
        return None if self.clusters < 2 else coverage(self.clusters)


def coverage(n: int) -> float:
    """Probability that [min, max] of n independent readings covers the true median: 1 - 2 * 0.5^n."""
    return 1.0 - 2.0 * 0.5**n


def summarise(
    readings: Sequence[SeedReading], modes: Iterable[str] = (), *, failed: int = 0, not_run: int = 0
) -> Estimate:
    """Puts the seeds of one cell together.

    Args:
        readings: one a finished seed.
        modes: the mode of each diverged seed.
        failed: seeds whose every attempt so far failed.
        not_run: seeds without a result or a failure yet.
    """
    counts: Counter[str] = Counter(one.kind for one in readings)
    numbers = [(one.bounds, one.data_seed) for one in readings if one.bounds is not None]
    found = [bounds for bounds, _ in numbers]
    clusters = [data_seed for _, data_seed in numbers]
    middle = median(found) if found else None
    if middle is not None and middle.point is None:  # censored on both sides: nothing is known
        middle = None
    ends = [end for bounds in found for end in bounds if 0.0 < end < float("inf")]
    return Estimate(
        kind=_kind(middle, counts, failed),
        bounds=middle,
        interval=interval(found, clusters) if found else None,
        low=min(ends, default=None),
        high=max(ends, default=None),
        planned=len(readings) + failed + not_run,
        n=len(found),
        clusters=len(set(clusters)),
        measured=counts["measured"],
        censored=counts["censored"],
        below=counts["below"],
        not_learned=counts["not_learned"],
        undecided=counts["undecided"],
        failed=failed,
        not_run=not_run,
        modes=tuple(sorted(Counter(modes).items(), key=lambda item: (-item[1], item[0]))),
    )


def _kind(middle: Bounds | None, counts: Counter[str], failed: int) -> Kind:
    if middle is not None:
        return "below" if middle.low == 0.0 else "censored" if middle.high == float("inf") else "measured"
    if counts["not_learned"]:
        return "not_learned"
    return "undecided" if counts.total() else "failed" if failed else "not_run"
