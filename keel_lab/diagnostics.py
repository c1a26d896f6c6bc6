"""What a replayed stretch of a trial measured inside the model, step by step, and its Parquet form."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

from keel_lab.curve import Curve
from keel_lab.errors import NewerSchemaError
from keel_lab.parquet import read_parquet

SCHEMA = 1

# What is measured, by column. Each has one value a place: a part of the model, a sub-layer, a block.
GRAD_NORM = "grad_norm"  # 2-norm of a part's gradients, before clipping
UPDATE_RATIO = "update_ratio"  # |dW| / |W| in Frobenius norms, the largest over a part's matrices
UPDATE_RATIO_MEDIAN = "update_ratio_median"  # the same, the (lower) median over them
ATTENTION_LOGIT = "attention_logit"  # largest |q k^T / sqrt(head width)| at or before the query's position, a block
OUTPUT_LOGIT = "output_logit"  # largest |logit| of the head
STREAM_RMS = "stream_rms"  # root mean square of the stream after a sub-layer
MEASURES = (GRAD_NORM, UPDATE_RATIO, UPDATE_RATIO_MEDIAN, ATTENTION_LOGIT, OUTPUT_LOGIT, STREAM_RMS)


class Window(NamedTuple):
    """Steps `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True)
class Fidelity:
    """How a replay compares with the stored curve.

    Attributes:
        first_difference: the first step whose record is not the stored one bit for bit; None if all are.
        largest_difference: of the loss before the onset (or, without one, anywhere), in nats.
        execution: what differs between the stored execution and the replay's: name -> (stored, replayed).
    """

    first_difference: int | None = None
    largest_difference: float = 0.0
    execution: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every replayed step equals the stored one bit for bit."""
        return self.first_difference is None


@dataclass(frozen=True)
class Diagnostics:
    """The measurements of one window of a trial.

    Attributes:
        curve: sha256 of the stored curve up to the window's last step, see `curve_hash`.
        steps: in order, without holes.
        places: for each measure the names of its columns' places, e.g. `block 3 attention`.
        values: for each measure a row a step, a value a place; in fp32 once stored.
    """

    trial_id: str
    curve: str
    fidelity: Fidelity
    steps: tuple[int, ...]
    places: Mapping[str, tuple[str, ...]]
    values: Mapping[str, list[list[float]]]

    def answers(self, curve: Curve, window: Window) -> bool:
        """Whether these are of that very curve and cover the window."""
        last = self.steps[-1] if self.steps else 0
        covered = bool(self.steps) and self.steps[0] <= window.first and window.last <= last
        return covered and self.curve == curve_hash(curve, last)

    def within(self, window: Window) -> Diagnostics:
        """The part of these inside the window."""
        inside = [window.first <= step <= window.last for step in self.steps]
        values = {name: list(compress(rows, inside)) for name, rows in self.values.items()}
        return replace(self, steps=tuple(compress(self.steps, inside)), values=values)

    def to_parquet(self) -> bytes:
        """A row a step, a list a measure; equal measurements give equal bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        facts = {
            "trial_id": self.trial_id,
            "curve": self.curve,
            "fidelity": {**vars(self.fidelity), "execution": dict(self.fidelity.execution)},
            "places": {name: list(places) for name, places in self.places.items()},
        }
        metadata = {"keel_lab_schema": str(SCHEMA), "keel_lab_diagnostics": json.dumps(facts)}
        kinds = [("step", pa.int64()), *((name, pa.list_(pa.float32())) for name in MEASURES)]
        columns = {"step": list(self.steps), **{name: self.values[name] for name in MEASURES}}
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, schema=pa.schema(kinds, metadata=metadata)), sink, compression="zstd")
        return sink.getvalue()

    @classmethod
    def from_parquet(cls, content: bytes) -> Diagnostics:
        """Inverse of `to_parquet`.

        Raises:
            NewerSchemaError: (a ValueError) if it is of a newer schema than this version reads.
            ValueError: if the content is no diagnostics.
        """
        import pyarrow as pa

        try:
            table = read_parquet(content)
            metadata = table.schema.metadata or {}
            version = int(metadata[b"keel_lab_schema"])
            if version > SCHEMA:
                raise NewerSchemaError("diagnostics", version, SCHEMA)
            facts = json.loads(metadata[b"keel_lab_diagnostics"])
            columns = {name: table.column(name).to_pylist() for name in ("step", *MEASURES)}
            found = facts["fidelity"]
            execution = {name: (old, new) for name, (old, new) in found["execution"].items()}
            fidelity = Fidelity(found["first_difference"], found["largest_difference"], execution)
            places = {name: tuple(facts["places"][name]) for name in MEASURES}
        except (pa.ArrowException, OSError, KeyError, TypeError) as error:
            raise ValueError(f"not diagnostics of keel_lab: {error}") from error
        return cls(facts["trial_id"], facts["curve"], fidelity, tuple(columns.pop("step")), places, columns)


def curve_hash(curve: Curve, last: int) -> str:
    """Sha256 of the curve up to and including step `last`."""
    return hashlib.sha256(curve.prefix(last).to_parquet()).hexdigest()
