"""The lower envelope of a curve's siblings, and the gap between the two, step by step."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from keel_lab.curve import Step
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.whole import is_broken

WINDOW = 16  # samples of a level


class Line:
    """A curve's finite samples: steps, losses (paired where the data gives it) and LRs."""

    def __init__(self, steps: Sequence[Step], unigram_entropy: float | None) -> None:
        good = [step for step in steps if not is_broken(step)]
        self.steps = [step.step for step in good]
        self.values = [paired_loss(step.loss, step.unigram_loss, unigram_entropy) for step in good]
        self.lrs = [step.lr for step in good]
        self._at = dict(zip(self.steps, self.values, strict=True))

    def shares(self, wanted: Sequence[int]) -> int:
        """How many of the steps it has."""
        return sum(step in self._at for step in wanted)

    def at(self, step: int) -> float | None:
        """The loss at a step, interpolated between logged ones; None beyond them."""
        if step in self._at:
            return self._at[step]
        right = bisect_left(self.steps, step)
        if right in (0, len(self.steps)):
            return None
        before, after = self.steps[right - 1], self.steps[right]
        share = (step - before) / (after - before)
        return self.values[right - 1] + share * (self.values[right] - self.values[right - 1])

    def peak(self, first: int, last: int) -> float:
        """The largest LR between two steps."""
        lrs = [lr for step, lr in zip(self.steps, self.lrs, strict=True) if first <= step <= last]
        return max((lr for lr in lrs if math.isfinite(lr)), default=math.nan)


class Gap:
    """Loss minus envelope, at the curve's steps: the common ones, unless that would lose most of a sibling's.

    Attributes:
        interpolated: whether siblings are read between their logged steps.
        steps, values, names: where, the gap in nats, and whose loss the envelope is there.
    """

    def __init__(self, own: Line, siblings: dict[str, Line]) -> None:
        lines = list(siblings.values())
        reach = [step for step in own.steps if any(line.at(step) is not None for line in lines)]
        self.interpolated = any(2 * line.shares(reach) < _within(line, reach) for line in lines)
        levels = {name: _levels(line.values) for name, line in siblings.items()}
        self.steps: list[int] = []
        self.values: list[float] = []
        self.names: list[str] = []
        for step in reach:
            near = [
                (levels[name][min(bisect_left(line.steps, step), len(line.steps) - 1)], name, value)
                for name, line in siblings.items()
                if (self.interpolated or line.shares([step])) and (value := line.at(step)) is not None
            ]
            if near:
                _, name, value = min(near)
                self.steps.append(step)
                self.values.append(own.at(step) - value)  # type: ignore[operator]
                self.names.append(name)


def _within(line: Line, steps: Sequence[int]) -> int:
    return sum(line.steps[0] <= step <= line.steps[-1] for step in steps)


def _levels(values: Sequence[float]) -> list[float]:
    """Means of up to `WINDOW` samples around each."""
    half = WINDOW // 2
    parts = [values[max(0, i - half) : i + half] for i in range(len(values))]
    return [math.fsum(part) / len(part) for part in parts]
