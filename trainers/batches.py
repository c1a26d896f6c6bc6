"""The training data as Lightning takes it: an endless iterable of ready micro-batches, without workers or collation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64
from torch import Tensor

from keel_lab.trial import Trial
from trainers.data.sampler import choices, window_starts, windows
from trainers.data.shard import Shard
from trainers.ranks import Ranks

ALONE = Ranks()


class MicroBatch(NamedTuple):
    """Part of an update's sequences.

    Attributes:
        inputs: token ids.
        targets: the token after each input.
        unigram_loss: mean cross-entropy of `targets` under the unigram table, nats a token.
    """

    inputs: Int64[Tensor, "batch time"]
    targets: Int64[Tensor, "batch time"]
    unigram_loss: float


def first_update(trial: Trial, shard: Shard) -> Int64[Tensor, "batch time"]:
    """The inputs of the run's first update, all micro-batches in one."""
    return torch.from_numpy(_sequences(trial, shard, 0, trial.train.batch_size)[:, :-1]).contiguous()


def _sequences(trial: Trial, shard: Shard, first: int, count: int) -> npt.NDArray[np.int64]:
    context = trial.model.context
    starts = window_starts(trial.data_seed, first, count, choices(len(shard.train), context))
    return windows(shard.train, starts, context)


class Updates:
    """Micro-batches in order of their sequences, from a given update on, without end.

    Args:
        trial: gives seed, batch size, accumulation and context.
        shard: gives the tokens.
        first_update: updates that are already done.
        ranks: of each micro-batch this rank gets its part, so that all ranks together see what one alone would.
    """

    def __init__(self, trial: Trial, shard: Shard, first_update: int, ranks: Ranks = ALONE) -> None:
        self._trial = trial
        self._shard = shard
        self._first_update = first_update
        self._ranks = ranks

    def __iter__(self) -> Iterator[MicroBatch]:
        train, shard = self._trial.train, self._shard
        micro = train.batch_size // train.accumulate
        part = micro // self._ranks.size
        sequence = self._first_update * train.batch_size
        while True:
            tokens = _sequences(self._trial, shard, sequence + self._ranks.rank * part, part)
            unigram_loss = shard.unigram.loss(tokens[:, 1:])
            both = torch.from_numpy(tokens)
            yield MicroBatch(both[:, :-1].contiguous(), both[:, 1:].contiguous(), unigram_loss)
            sequence += micro
