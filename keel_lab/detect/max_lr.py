"""Max LR: what one verdict says of the largest learning rate (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from keel_lab.detect.verdict import Status, Verdict


class MaxLRKind(StrEnum):
    """How far a curve tells its Max LR."""

    MEASURED = "measured"  # it diverged: `lr` is the LR at the last good step
    CENSORED = "censored"  # it did not: Max LR is above `lr`
    BELOW = "below"  # never learned, nor did a run held at `lr`: Max LR is below it
    NOT_LEARNED = "not_learned"  # no good step: it never left the unigram level, or was bad at once
    UNDECIDED = "undecided"  # too short, still suspect at its end, or no LR is known


@dataclass(frozen=True)
class MaxLR:
    """A reading of Max LR.

    Attributes:
        kind: see `MaxLRKind`.
        lr: set if and only if the kind is measured, censored or below.
    """

    kind: MaxLRKind
    lr: float | None = None

    def text(self, number: Callable[[float], str]) -> str:
        """In words that never hide censoring; `number` writes an LR."""
        if self.lr is None:
            return "not learned at this slope" if self.kind is MaxLRKind.NOT_LEARNED else "undecided"
        if self.kind is MaxLRKind.BELOW:
            return f"< {number(self.lr)} (held)"
        return f"> {number(self.lr)} (censored)" if self.kind is MaxLRKind.CENSORED else number(self.lr)


def max_lr(verdict: Verdict) -> MaxLR:
    """The LR at the last good step, with its censoring. It holds for the ramp's shape and slope only."""
    if verdict.status in (Status.UNDECIDED, Status.UNCONFIRMED):
        return MaxLR(MaxLRKind.UNDECIDED)
    if verdict.learned is False or verdict.last_good_step is None:
        return MaxLR(MaxLRKind.NOT_LEARNED)
    if verdict.last_good_lr is None:
        return MaxLR(MaxLRKind.UNDECIDED)
    return MaxLR(MaxLRKind.CENSORED if verdict.censored else MaxLRKind.MEASURED, verdict.last_good_lr)


def with_holds(reading: MaxLR, held: Iterable[tuple[float, Verdict]]) -> MaxLR:
    """The reading of a ramp that never learned, given forks of it that held their LR: an upper bound if they fail too.

    Args:
        reading: of the ramp.
        held: LR and verdict of each fork. The bound is the lowest LR from which on every fork failed.
    """
    if reading.kind is not MaxLRKind.NOT_LEARNED:
        return reading
    bound = None
    for lr, verdict in sorted(held, key=lambda item: item[0], reverse=True):
        if verdict.status is not Status.DIVERGED:
            break
        bound = lr
    return reading if bound is None else MaxLR(MaxLRKind.BELOW, bound)
