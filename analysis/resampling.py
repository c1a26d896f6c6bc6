"""Bootstrap resamples of clusters: all of them where they are few, else a seeded draw."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EXACT = 6  # clusters up to which every resample is listed: 462 of them
DRAWS = 2000  # beyond


class Resamples(NamedTuple):
    """How often each of k clusters is drawn, of shape (rows, k), and each row's probability; both read-only."""

    counts: NDArray[np.int64]
    probability: NDArray[np.float64]


@cache
def resamples(clusters: int) -> Resamples:
    """Draws of as many clusters as there are, with replacement; the same each time."""
    if clusters > EXACT:
        draws = np.random.default_rng(clusters).multinomial(clusters, [1 / clusters] * clusters, size=DRAWS)
        counts, probability = draws.astype(np.int64), np.full(DRAWS, 1 / DRAWS)
    else:
        chosen = combinations_with_replacement(range(clusters), clusters)
        counts = np.array([np.bincount(one, minlength=clusters) for one in chosen], dtype=np.int64)
        orders = [math.factorial(clusters) / math.prod(map(math.factorial, row)) for row in counts.tolist()]
        probability = np.array(orders) / clusters**clusters
    counts.flags.writeable = probability.flags.writeable = False
    return Resamples(counts, probability)
