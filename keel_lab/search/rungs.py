"""A trial's loss on its way: the mean just before each of a few marks, evenly spaced over its steps.

The loss is the paired one (the batch's own difficulty taken out) wherever the data gives it: it is several times
quieter, so that trials are told apart earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from keel_lab.curve import Step
from keel_lab.trial import Trial

SHARE = 20  # a rung is the mean over a twentieth of the run before it


def rung_steps(steps: int, rungs: int) -> tuple[int, ...]:
    """The steps at which a run of `steps` is looked at; the last one is its end."""
    return tuple(sorted({max(1, round(steps * (number + 1) / rungs)) for number in range(rungs)}))


def rung_loss(before: Sequence[Step], steps: int, unigram_entropy: float | None) -> float:
    """The mean loss at the end of `before`, over a twentieth of the run; NaN if a loss there is not finite."""
    window = before[-max(1, steps // SHARE) :]
    losses = [
        one.loss - (one.unigram_loss - unigram_entropy)
        if unigram_entropy is not None and math.isfinite(one.unigram_loss)
        else one.loss
        for one in window
    ]
    return sum(losses) / len(losses) if losses and all(map(math.isfinite, losses)) else math.nan


def rung_losses(
    curve: Sequence[Step], trial: Trial, rungs: int, unigram_entropy: float | None, end: int | None = None
) -> dict[int, float]:
    """Loss by tokens at each rung that a curve has reached in good order, finite values only.

    Args:
        curve: its steps, from the first on.
        trial: whose it is.
        rungs: how many there are in a whole run.
        unigram_entropy: H1, if known.
        end: the last step that counts (of a diverged run the step before its onset); None for all.
    """
    steps = trial.schedule.steps
    last = len(curve) if end is None else min(end, len(curve))
    found = {
        mark * trial.tokens_per_step: rung_loss(curve[:mark], steps, unigram_entropy)
        for mark in rung_steps(steps, rungs)
        if mark <= last
    }
    return {tokens: loss for tokens, loss in found.items() if math.isfinite(loss)}
