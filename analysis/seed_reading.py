"""What one seed of a cell says of its Max LR, with the seeds that pair and group it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from analysis.censored import Bounds
from keel_lab.detect.max_lr import MaxLR, MaxLRKind

Kind = Literal["measured", "censored", "below", "not_learned", "undecided"]


@dataclass(frozen=True)
class SeedReading:
    """A seed's Max LR within bounds.

    Attributes:
        kind: `measured` has both bounds, `censored` only a lower and `below` only an upper one; the others none.
        bounds: on LR; None where the seed has no Max LR.
    """

    kind: Kind
    bounds: Bounds | None
    init_seed: int
    data_seed: int

    @classmethod
    def between(cls, low: float, high: float, init_seed: int, data_seed: int) -> SeedReading:
        """Of a Max LR in (low, high], or exactly there where they are equal; 0 and infinity are open ends."""
        kind: Kind = "censored" if math.isinf(high) else "below" if low == 0.0 else "measured"
        return cls(kind, Bounds(low, high), init_seed, data_seed)

    @classmethod
    def of(cls, reading: MaxLR, init_seed: int, data_seed: int) -> SeedReading:
        """Of what a ramp's verdict says. The LR at the last good step *is* its Max LR, hence exact."""
        if reading.lr is not None:
            if reading.kind is MaxLRKind.BELOW:
                return cls.between(0.0, reading.lr, init_seed, data_seed)
            high = math.inf if reading.kind is MaxLRKind.CENSORED else reading.lr
            return cls.between(reading.lr, high, init_seed, data_seed)
        never = reading.kind is MaxLRKind.NOT_LEARNED
        return cls("not_learned" if never else "undecided", None, init_seed, data_seed)
