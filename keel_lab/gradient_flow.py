"""What `keel-lab probe` measures inside a model at chosen moments of its training, and its JSON form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keel_lab.errors import NewerSchemaError, UsageError
from keel_lab.plan.planned import PlannedTrial

SCHEMA = 1
MOMENTS = "init,1%,10%,50%,100%"
INIT = "init"

# One value a sub-layer l = 0 .. L-1. F is what stands beside the stream in the sum, gamma * mid(F(...)).
STREAM_RMS = "stream_rms"  # of the stream that enters
SKIP_RMS = "skip_rms"  # of alpha * skip(x); NaN where the step is no affine one, as in the next four
BRANCH_RMS = "branch_rms"  # of F
SUM_RMS = "sum_rms"  # of alpha * skip(x) + F
COSINE = "cosine"  # between alpha * skip(x) and F, over the whole batch
RADIAL = (
    "radial"  # share of the squared skip-only gradient along a norm's output, which the norm removes; 0 without one
)
SKIP_PRODUCT = "skip_product"  # |gradient at the entry of l| / |gradient after the last|, all branches detached
STATE_GRAD = "state_grad"  # |gradient of the loss| at the stream that enters
LARGEST_GAIN = "largest_gain"  # |gain| of a norm of the sub-layer; NaN without one
SMALLEST_GAIN = "smallest_gain"
# One value a part: embedding, each sub-layer, final norm, head.
WEIGHT_GRAD = "weight_grad"  # |gradient of the loss| at all of a part's parameters, before clipping
MATRIX_GRAD = "matrix_grad"  # the same at its matrices alone, without gains and vectors
WEIGHT_DRIFT = "weight_drift"  # |W - W0| / |W0| over a part's matrices; NaN for a part without any
TINY_MOMENTS = "tiny_moments"  # share of Adam's sqrt(v), bias corrected, below eps; NaN before the first update

SUBLAYER_MEASURES = (
    *(STREAM_RMS, SKIP_RMS, BRANCH_RMS, SUM_RMS, COSINE, RADIAL, SKIP_PRODUCT, STATE_GRAD),
    *(LARGEST_GAIN, SMALLEST_GAIN),
)
PART_MEASURES = (WEIGHT_GRAD, MATRIX_GRAD, WEIGHT_DRIFT, TINY_MOMENTS)
MEASURES = (*SUBLAYER_MEASURES, *PART_MEASURES)


@dataclass(frozen=True)
class Moment:
    """The measurements after `step` updates, on the same held-out sequences each time.

    Attributes:
        loss: of these sequences, nats a token.
        values: a list a measure, a value a place; NaN where there is none.
    """

    step: int
    loss: float
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Flow:
    """All moments of one trial.

    Attributes:
        normed: for each sub-layer whether a norm follows its sum; None for a step that is no affine one.
        parts: places of the part measures; those of the others are the sub-layers.
        execution: torch, threads and device it was measured with.
    """

    trial_id: str
    normed: tuple[bool | None, ...]
    parts: tuple[str, ...]
    moments: tuple[Moment, ...]
    execution: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[int, ...]:
        """Of the moments."""
        return tuple(moment.step for moment in self.moments)

    def at(self, steps: Sequence[int]) -> Flow:
        """Those moments alone."""
        kept = tuple(moment for moment in self.moments if moment.step in steps)
        return Flow(self.trial_id, self.normed, self.parts, kept, self.execution)

    def to_json(self) -> bytes:
        """A JSON object; what is not finite becomes null."""
        moments = [{"step": one.step, "loss": one.loss, "values": dict(one.values)} for one in self.moments]
        content = {"schema": SCHEMA, **vars(self), "moments": moments}
        return json.dumps(_nulls(content), allow_nan=False).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Flow:
        """Inverse of `to_json`, but for infinities, which become NaN.

        Raises:
            NewerSchemaError: (a ValueError) if it is of a newer schema.
            ValueError: if it is none.
        """
        try:
            found = json.loads(content)
            if found["schema"] > SCHEMA:
                raise NewerSchemaError("a probe's measurements", found["schema"], SCHEMA)
            moments = tuple(
                Moment(
                    one["step"], _nan(one["loss"]), {name: list(map(_nan, one["values"][name])) for name in MEASURES}
                )
                for one in found["moments"]
            )
            return cls(found["trial_id"], tuple(found["normed"]), tuple(found["parts"]), moments, found["execution"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the measurements of a probe: {error!r}") from error


@dataclass(frozen=True)
class Probed:
    """A trial of a sweep with what was measured of it."""

    planned: PlannedTrial
    flow: Flow


def moments(text: str, steps: int) -> tuple[int, ...]:
    """The updates that `init`, `50%` or `300`, separated by commas, stand for in a run of `steps`; ascending.

    A share is rounded to whole updates, at least one.

    Raises:
        UsageError: if a word is none of these, or lies beyond the run's end.
    """
    return tuple(sorted({_moment(word.strip(), steps) for word in text.split(",")}))


def _moment(word: str, steps: int) -> int:
    allowed = f"give {INIT}, a share such as 10%, or a step from 1 to {steps}, separated by commas"
    if word == INIT:
        return 0
    digits, percent = word.removesuffix("%"), word.endswith("%")
    try:
        number = float(digits) if percent else int(digits)
    except ValueError:
        raise UsageError(f"--at: found {word!r}; {allowed}") from None
    if not 0 < number <= (100 if percent else steps):
        raise UsageError(f"--at: found {word}, which is not within the run; {allowed}")
    return max(1, round(number / 100 * steps)) if percent else int(number)


def _nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
