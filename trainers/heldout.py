"""The validation loss: a fixed, evenly spaced set of held-out sequences, the same for every run on a corpus."""

from __future__ import annotations

import torch
from torch.nn import functional

from keel_lab.trial import Trial
from trainers.data.sampler import choices, heldout_starts, windows
from trainers.data.shard import Shard
from trainers.model import Transformer


@torch.no_grad()
def heldout_loss(model: Transformer, shard: Shard, sequences: int, trial: Trial) -> float:
    """Mean cross-entropy in nats a token over `sequences` held-out sequences, in the precision the trial trains at.

    Args:
        model: trained; stays on its device.
        shard: gives the held-out tokens.
        sequences: how many (each start once, if there are fewer starts).
        trial: gives context, micro-batch size and precision.
    """
    context = trial.model.context
    starts = heldout_starts(sequences, choices(len(shard.heldout), context))
    device = model.head.device
    total = 0.0
    for part in range(0, len(starts), trial.train.batch_size):
        tokens = windows(shard.heldout, starts[part : part + trial.train.batch_size], context)
        both = torch.from_numpy(tokens).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=trial.train.precision == "bf16"):
            logits = model(both[:, :-1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), both[:, 1:].flatten(), reduction="sum")
        total += loss.item()
    return total / (len(starts) * context)
