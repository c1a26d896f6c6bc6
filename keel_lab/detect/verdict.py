"""The vocabulary that every detector, table and picture shares (DESIGN sections 1 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

DETECTOR = "streaming-2"  # raise when the same curve under the same thresholds would get another verdict


class Status(StrEnum):
    """What a curve is called."""

    HEALTHY = "healthy"
    TRANSIENT = "transient"  # at least one instability, each regained
    UNCONFIRMED = "unconfirmed"  # the curve ended while suspect
    UNDECIDED = "undecided"  # too short to say
    DIVERGED = "diverged"


class Mode(StrEnum):
    """How a diverged curve diverged."""

    NON_FINITE = "non_finite"
    COLLAPSE = "collapse"
    IRRECOVERABLE = "irrecoverable"
    STAGNATION = "stagnation"
    DEGRADATION = "degradation"


class State(StrEnum):
    """What a streaming detector says while the curve goes on."""

    WARMING = "warming"  # too few samples to know the noise
    HEALTHY = "healthy"
    SUSPECT = "suspect"  # alarmed, neither regained nor confirmed
    DIVERGED = "diverged"  # confirmed; final


@dataclass(frozen=True)
class Verdict:
    """What a detector says of one curve.

    Attributes:
        status: see `Status`.
        mode: set if and only if `status` is diverged.
        onset_step: first bad step, back-dated; None unless diverged or unconfirmed (there: where it would be), and None
            for stagnation, where no level was ever left.
        last_good_step: the step before the onset, or the last step of a curve without one; None if never learned.
        last_good_lr: the LR that the update at `last_good_step` used: Max LR, if an LR was given.
        censored: True if nothing diverged by the curve's end: the Max LR is above `last_good_lr`.
        learned: whether the curve left the unigram level downwards; None if that level is not known or the curve is too
            short to say.
        evidence: JSON-ready numbers behind the verdict (levels, sigma, rule that spoke, ...).
        detector: which detector spoke, with its version.
    """

    status: Status
    mode: Mode | None = None
    onset_step: int | None = None
    last_good_step: int | None = None
    last_good_lr: float | None = None
    censored: bool = False
    learned: bool | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    detector: str = DETECTOR

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict; `from_json` inverts it."""
        return {
            "status": str(self.status),
            "mode": None if self.mode is None else str(self.mode),
            "onset_step": self.onset_step,
            "last_good_step": self.last_good_step,
            "last_good_lr": self.last_good_lr,
            "censored": self.censored,
            "learned": self.learned,
            "evidence": dict(self.evidence),
            "detector": self.detector,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Inverse of `to_json`."""
        mode = data["mode"]
        return cls(**{**data, "status": Status(data["status"]), "mode": None if mode is None else Mode(mode)})
