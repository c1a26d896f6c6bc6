"""LR sensitivity (Wortsman et al. 2023, arXiv 2309.14322, section 2.2): how much a wrong learning rate costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.lr_response import Seeds
from analysis.means import Mean, mean

FEWEST = 3  # peak LRs: with fewer the mean over them says nothing of a range


@dataclass(frozen=True)
class Outcome:
    """What the seeds at one peak LR came to.

    Attributes:
        losses: final validation loss in nats a token, by seeds; Inf where a seed diverged.
    """

    lr: float
    losses: Mapping[Seeds, float]


def sensitivity(outcomes: Sequence[Outcome], chance: float) -> Mean | None:
    """The mean over the LRs of min(loss, chance) less its smallest value, in nats; its mean over seeds.

    Args:
        outcomes: one a peak LR, spaced evenly on log LR: each counts alike.
        chance: the loss of a uniform guess, ln V, which a model has at its first step; a divergence costs it.

    Returns:
        None with fewer than `FEWEST` LRs, or where no seed has a loss at each of them.
    """
    if len(outcomes) < FEWEST:
        return None
    shared = [seeds for seeds in outcomes[0].losses if all(seeds in one.losses for one in outcomes)]
    found = {}
    for seeds in shared:
        capped = [min(one.losses[seeds], chance) for one in outcomes]
        if not any(math.isnan(loss) for loss in capped):
            found[seeds] = math.fsum(capped) / len(capped) - min(capped)
    return mean(list(found.values()), [data_seed for _, data_seed in found])
