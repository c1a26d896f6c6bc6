"""The numbers that a trial ends with: which way is better, which belong together, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

LOSS, PERPLEXITY = "val_loss", "perplexity"
_LOWER = ("loss", "perplexity", "ppl", "nll", "error", "bits_per_byte")
_LARGEST = 700.0  # nats whose perplexity a float holds


@dataclass(frozen=True)
class Metric:
    """A row of a table of metrics.

    Attributes:
        name: as the trial reports it, `mean of FAMILY`, or `average`.
        members: the reported names it is the plain mean of; itself alone for a reported one.
        family: what stands before a slash in the name; empty without one, and for the average.
    """

    name: str
    members: tuple[str, ...]
    family: str = ""

    @property
    def lower_is_better(self) -> bool:
        """By the name's ending: losses, perplexities, errors."""
        return lower_is_better(self.members[0])

    @property
    def in_logs(self) -> bool:
        """Whether means over seeds are taken of its logarithm: a mean perplexity is exp of a mean loss."""
        return len(self.members) == 1 and self.name.lower().endswith(("perplexity", "ppl"))

    def of(self, metrics: Mapping[str, float]) -> float | None:
        """Its value among a trial's; None if one of its members is missing or not finite."""
        found = [metrics.get(name, math.nan) for name in self.members]
        return fmean(found) if all(map(math.isfinite, found)) else None


def lower_is_better(name: str) -> bool:
    """Whether a smaller value is the better one; a name that does not say so is a score."""
    return name.lower().endswith(_LOWER)


def with_perplexity(metrics: Mapping[str, float]) -> dict[str, float]:
    """A trial's metrics with the perplexity of its validation loss, exp(nats a token), if it does not report one."""
    loss = metrics.get(LOSS, math.nan)
    derived = {PERPLEXITY: math.exp(loss)} if loss < _LARGEST else {}
    return {**derived, **metrics}


def rows(names: Iterable[str]) -> tuple[Metric, ...]:
    """The rows for these reported names: the loss first, families together with their means, the average last.

    A family's mean stands where it has two members at least, all of one direction. The average is the mean of all
    scores that belong to a family, as in the paper's Table 2; with one family it is that family's mean, and left out.
    """
    given = set(names) | {LOSS}
    single = [name for name in given if "/" not in name]
    order = sorted(single, key=lambda name: (name not in (LOSS, PERPLEXITY), name != LOSS, name))
    found = [Metric(name, (name,)) for name in order]
    families: dict[str, list[str]] = {}
    for name in sorted(given - set(single)):
        families.setdefault(name.partition("/")[0], []).append(name)
    for family, members in families.items():
        found += [Metric(name, (name,), family) for name in members]
        if len(members) > 1 and len(set(map(lower_is_better, members))) == 1:
            found.append(Metric(f"mean of {family}", tuple(members), family))
    scores = [name for members in families.values() for name in members if not lower_is_better(name)]
    if len({name.partition("/")[0] for name in scores}) > 1:
        found.append(Metric("average", tuple(scores)))
    return tuple(found)
