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


@dataclass(frozen=True)
class Held:
    """A run beside a ramp: the LR it held (or at which it learned, if it held none), and its verdict."""

    lr: float
    verdict: Verdict
    held: bool = True


def with_holds(reading: MaxLR, beside: Iterable[Held]) -> MaxLR:
    """The reading of a ramp that never learned, given runs beside it: an upper bound from those held that fail too.

    A held run that fails says something of its LR only if a run at lower LR learned within the same steps: else it was
    the steps that were too few.

    Args:
        reading: of the ramp.
        beside: its forks and its reference. The bound is the lowest LR from which on every fork failed.
    """
    if reading.kind is not MaxLRKind.NOT_LEARNED:
        return reading
    runs, bound = list(beside), None
    for fork in sorted((one for one in runs if one.held), key=lambda one: one.lr, reverse=True):
        if fork.verdict.status is not Status.DIVERGED:
            break
        bound = fork.lr
    if bound is None or not any(one.lr < bound and one.verdict.learned for one in runs):
        return reading
    return MaxLR(MaxLRKind.BELOW, bound)
