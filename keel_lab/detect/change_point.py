"""Where a level was left: the least-squares change point of a stretch of a curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple


class ChangePoint(NamedTuple):
    """The last index of the level, and how it was left."""

    last_good: int
    shape: Literal["jump", "creep"]


_SPLIT = 10.0  # drop of the squared error, in sigma^2, that a change in pure noise reaches in some 3% of stretches


def first_departure(values: Sequence[float], sigma: float, bound: float) -> ChangePoint:
    """The change point at which the level was left first, where a rise goes on in stages.

    The best single change of a staged rise lies between two stages: what precedes it is searched again, as long as
    there is an upward change in it that noise does not explain, to above the level's confidence bound. Without the
    bound a best level that was a lucky low would be left as soon as luck ends.

    Args:
        values: at least 2, finite; the first belongs to the level.
        sigma: their noise.
        bound: upper confidence bound of the level.
    """
    found, _ = change_point(values)
    while found.last_good > 0:
        earlier, gain = change_point(values[: found.last_good + 1])
        stage = values[earlier.last_good + 1 : found.last_good + 1]
        if gain < _SPLIT * sigma * sigma or sum(stage) <= bound * len(stage):
            break
        found = earlier
    return found


def change_point(values: Sequence[float]) -> tuple[ChangePoint, float]:
    """Fits a level that is left at once (jump to another level) or steadily (a line upwards), and takes the better.

    Both models have a level, a rise and the place of the change: m for i <= c, then m + r or m + r (i - c). Every c is
    tried, each in O(1) from running sums.

    Args:
        values: at least 2, finite; the first belongs to the level.

    Returns:
        The change point with the least squared error, the earliest of equals, and by how much it lessens that error
        against a level that is never left; 0 if nothing rises.
    """
    n = len(values)
    mean = sum(values) / n
    centred = [value - mean for value in values]
    sums = [0.0, *accumulate(centred)]
    moments = [0.0, *accumulate(i * value for i, value in enumerate(centred))]
    best, found = 0.0, ChangePoint(0, "jump")
    for c in range(n - 1):
        after = n - c - 1
        total = sums[n] - sums[c + 1]  # of the samples after c; that of all is 0
        product = moments[n] - moments[c + 1] - c * total
        first, second = after * (after + 1) / 2, after * (after + 1) * (2 * after + 1) / 6
        jump = total * total * (1.0 / after + 1.0 / (n - after)) if total > 0.0 else 0.0
        creep = product * product / (second - first * first / n) if product > 0.0 else 0.0
        if max(jump, creep) > best * (1.0 + 1e-12):
            best, found = max(jump, creep), ChangePoint(c, "jump" if jump >= creep else "creep")
    return found, best
