"""Medians of LRs that are known to lie between two bounds: exact, right-, left- or interval-censored readings.

Every function takes rows of weights and answers for each row, so that a bootstrap is one call. The middle of two LRs is
their middle on log LR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Columns = NDArray[np.intp]

STEPS = 1000  # of the self-consistency iteration
SETTLED = 1e-8  # largest change of a probability at which it ends
SLACK = 1e-3  # how near 1/2 it must leave a probability to count as 1/2: it may converge only as 1/steps


class Bounds(NamedTuple):
    """What a reading says of an LR or a ratio: it is `low` where both are equal, else in (low, high].

    Right-censored: `high` is infinite. Left-censored: `low` is 0.
    """

    low: float
    high: float

    @property
    def point(self) -> float | None:
        """The middle on log LR, the only bound there is if the other end is open, or None if both are."""
        if self.low == 0.0:
            return None if self.high == np.inf else self.high
        return self.low if self.high in (self.low, np.inf) else float((self.low * self.high) ** 0.5)


def median(readings: Sequence[Bounds]) -> Bounds:
    """The median that `medians` finds in readings of equal weight, at least one."""
    low, high = (np.array(ends, dtype=float) for ends in zip(*readings, strict=True))
    lows, highs = medians(low, high, np.ones((1, len(low)), dtype=np.int64))
    return Bounds(float(lows[0]), float(highs[0]))


def medians(low: Floats, high: Floats, weights: Integers) -> tuple[Floats, Floats]:
    """Medians of the nonparametric maximum-likelihood distribution, within their bounds.

    Kaplan and Meier's product limit where all censoring is on one side, else Turnbull's self-consistent estimate
    (J. R. Stat. Soc. B 38, 1976). Where the distribution stands at exactly 1/2 the median is the middle of the two
    places around, so that without censoring it is the ordinary median. Both assume that where a reading is censored has
    nothing to do with its LR.

    Args:
        low: lower bounds of n readings, of shape (n,); 0 if open.
        high: their upper bounds, of the same shape; infinite if open.
        weights: how often each reading counts, of shape (rows, n); no row is all zeros.

    Returns:
        Lower and upper bounds of the rows' medians, each of shape (rows,), equal where the median is known exactly.
    """
    exact = low == high
    if np.all(exact):  # what the product limit comes to then, to the bit, in less than half the time
        found = _weighted_median(low, weights)
        return found, found
    if np.all(exact | (high == np.inf)):
        return _product_limit(low, exact, weights)
    if np.all(exact | (low == 0.0)):  # censoring from the left mirrors that from the right
        lows, highs = _product_limit(1.0 / high, exact, weights)
        return 1.0 / highs, 1.0 / lows
    return _turnbull(low, high, weights)


def enclosing_medians(low: Floats, high: Floats, weights: Integers) -> tuple[Floats, Floats]:
    """Ordinary medians of the lower and of the upper bounds, with arguments and shapes as in `medians`.

    The median of the n numbers behind the bounds lies between the two, however they came to be censored.
    """
    return _weighted_median(low, weights), _weighted_median(high, weights)


def _middle(one: Floats, other: Floats) -> Floats:
    """On log LR; equal values stay as they are, to the bit."""
    return np.where(one == other, one, np.sqrt(one) * np.sqrt(other))


def _weighted_median(values: Floats, weights: Integers) -> Floats:
    order = np.argsort(values, kind="stable")
    values, counted = values[order], 2 * np.cumsum(weights[:, order], axis=1)
    half = counted[:, -1:] // 2
    return _middle(values[(counted >= half).argmax(axis=1)], values[(counted > half).argmax(axis=1)])


def _product_limit(lrs: Floats, exact: NDArray[np.bool_], weights: Integers) -> tuple[Floats, Floats]:
    order = np.lexsort((~exact, lrs))  # at equal LR the censored reading got further
    lrs, exact, weights = lrs[order], exact[order], weights[:, order]
    at_risk = weights[:, ::-1].cumsum(axis=1)[:, ::-1]
    survival = np.cumprod(np.where(exact, 1.0 - weights / np.maximum(at_risk, 1), 1.0), axis=1)
    passed, reached = survival < 0.5 - 1e-9, survival <= 0.5 + 1e-9
    found, halved = passed[:, -1], reached[:, -1]
    first = lrs[passed.argmax(axis=1)]
    furthest = np.where(weights > 0, lrs, 0.0).max(axis=1)
    low, high = np.where(found, first, furthest), np.where(found, first, np.inf)
    before = lrs[reached.argmax(axis=1)]
    return _middle(np.where(halved, before, low), low), _middle(np.where(halved, before, high), high)


def _turnbull(low: Floats, high: Floats, weights: Integers) -> tuple[Floats, Floats]:
    values, start_of, end_of = _endpoints(low, high)
    begins, right = _innermost(start_of, end_of, weights)
    left = np.arange(begins.shape[1])
    inside = begins[:, None] & (start_of[:, None] <= left) & (right[:, None] <= end_of[:, None])
    mass = _self_consistent(inside.astype(float), begins / begins.sum(axis=1, keepdims=True), weights)
    reached = mass.cumsum(axis=1)
    before, after = (reached >= 0.5 - SLACK).argmax(axis=1), (reached > 0.5 + SLACK).argmax(axis=1)
    rows = np.arange(len(weights))
    return (
        _middle(values[before], values[after]),
        _middle(values[right[rows, before]], values[right[rows, after]]),
    )


def _endpoints(low: Floats, high: Floats) -> tuple[Floats, Columns, Columns]:
    """The values of all 2n endpoints in order, and each reading's two places in that order.

    At equal LR an exact reading starts, then readings end, then those start that lie above.
    """
    n, exact = len(low), low == high
    values = np.concatenate([low, high])
    rank = np.concatenate([np.where(exact, 0, 2), np.ones(n, dtype=int)])
    order = np.lexsort((rank, values))
    place = np.empty(2 * n, dtype=np.intp)
    place[order] = np.arange(2 * n)
    return values[order], place[:n], place[n:]


def _innermost(start_of: Columns, end_of: Columns, weights: Integers) -> tuple[NDArray[np.bool_], Columns]:
    """Where a row's innermost intervals begin, and the place at which each ends, both of shape (rows, 2n).

    An innermost interval is a start that is followed by an end, with no other endpoint of the row's readings between.
    """
    places = 2 * len(start_of)
    reading, is_start = np.empty(places, dtype=np.intp), np.zeros(places, dtype=bool)
    reading[start_of] = reading[end_of] = np.arange(len(start_of))
    is_start[start_of] = True
    begins, right = np.zeros((len(weights), places), dtype=bool), np.zeros((len(weights), places), dtype=np.intp)
    end_next, next_place = np.zeros(len(weights), dtype=bool), np.zeros(len(weights), dtype=np.intp)
    for at in reversed(range(places)):
        present = weights[:, reading[at]] > 0
        right[:, at] = next_place
        begins[:, at] = present & end_next & is_start[at]
        end_next = np.where(present, not is_start[at], end_next)
        next_place = np.where(present, at, next_place)
    return begins, right


def _self_consistent(inside: Floats, mass: Floats, weights: Integers) -> Floats:
    """Shares each reading's weight out over the intervals inside it in proportion to their mass, until that settles."""
    total = weights.sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        held = np.einsum("rij,rj->ri", inside, mass)
        share = np.divide(weights, held, out=np.zeros_like(held), where=weights > 0)
        following: Floats = mass * np.einsum("ri,rij->rj", share, inside) / total
        if np.abs(following - mass).max() < SETTLED:
            return following
        mass = following
    return mass
