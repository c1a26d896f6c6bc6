"""The stateless sampler: sequence i of a run is a function of (data_seed, i) alone.

Resuming needs one integer, every architecture sees the same data in the same order, and so does every batch split:
update s (from 0) of a run with batch size B trains on sequences s * B to (s + 1) * B - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]

LARGEST_SEED = 2**64 - 1
_STREAM = 0x6B65656C_64617461  # keeps these draws apart from any other use of the same seed
_LANES = 4  # a Philox block holds four 64-bit draws


def window_starts(data_seed: int, first: int, count: int, choices: int) -> Positions:
    """Where sequences `first` to `first + count - 1` begin: uniform over `choices` positions, independent.

    Draw i is word i of the counter-based generator Philox-4x64 keyed by the seed. Its upper 53 bits make a float in
    [0, 1): no position is favoured by more than choices / 2^53.

    Args:
        data_seed: 0 to LARGEST_SEED.
        first: index of the first sequence, from 0.
        count: how many.
        choices: number of valid positions.
    """
    block, skip = divmod(first, _LANES)
    generator = np.random.Philox(key=np.array([data_seed, _STREAM], np.uint64), counter=block)
    words = generator.random_raw(skip + count)[skip:]
    return ((words >> np.uint64(11)) * (choices * 2.0**-53)).astype(np.int64)


def heldout_starts(count: int, choices: int) -> Positions:
    """Evenly spaced, the same for every run: `count` of `choices` positions, or all of them if there are fewer."""
    count = min(count, choices)
    return np.arange(count, dtype=np.int64) * choices // count


def windows(tokens: Tokens, starts: Positions, context: int) -> npt.NDArray[np.int64]:
    """The sequences that begin at `starts`, each with the token after it.

    Args:
        tokens: (n,), token ids; may be memory-mapped.
        starts: (count,), each at most n - context - 1.
        context: tokens that the model sees.

    Returns:
        (count, context + 1) int64: inputs are `[:, :-1]`, targets `[:, 1:]`.
    """
    return np.asarray(tokens[starts[:, None] + np.arange(context + 1)], dtype=np.int64)


def choices(tokens: int, context: int) -> int:
    """Number of valid window starts among `tokens` tokens; not positive if there are too few."""
    return tokens - context
