"""The unigram table: how hard a batch is for a model that ignores its context (DESIGN section 6)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt


class Unigram:
    """Cross-entropy under the training tokens' unigram distribution, by table look-up.

    Counts are smoothed by 1/V each (one token's worth in all), so that a token never seen in training costs a finite
    loss: q(v) = (n_v + 1/V) / (N + 1).

    Attributes:
        nats: -log q, float64, one entry per token id.
        entropy: H1 = mean of `nats` over the training tokens, i.e. exactly the level about which the unigram loss of
            training batches varies; above the entropy of the raw frequencies by less than 1 / N nats.
        chance: log V, the loss of the uniform distribution.
    """

    def __init__(self, counts: npt.NDArray[np.int64]) -> None:
        total, vocab = int(counts.sum()), len(counts)
        self.nats: npt.NDArray[np.float64] = math.log(total + 1) - np.log(counts + 1 / vocab)
        self.entropy = float(counts @ self.nats) / total
        self.chance = math.log(vocab)

    def loss(self, targets: npt.NDArray[Any]) -> float:
        """Mean over `targets` (token ids, any shape), in nats a token."""
        return float(self.nats[targets].mean())
