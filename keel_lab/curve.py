"""A trial's curve: what every step recorded (DESIGN section 6), in memory and as deterministic Parquet.

Seconds are kept apart (`timing.parquet`): the curve holds only what an equal run would reproduce byte for byte.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keel_lab.errors import NewerSchemaError
from keel_lab.parquet import read_parquet

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = 1


class Step(NamedTuple):
    """One optimizer step.

    Attributes:
        step: 1-based update number.
        loss: nats a token, fp32, mean over ranks and micro-batches, read before any NaN filter.
        lr: the LR that this step's update used.
        unigram_loss: cross-entropy of this batch's targets under the corpus's unigram distribution; NaN if unknown.
        grad_norm: global norm before clipping; NaN if unknown.
        clipped: whether clipping scaled the gradients.
        skipped: whether the update was skipped because something was not finite.
        weights_finite: False if a weight was found NaN or Inf after the update.
        tokens: tokens seen up to and including this step.
    """

    step: int
    loss: float
    lr: float
    unigram_loss: float = math.nan
    grad_norm: float = math.nan
    clipped: bool = False
    skipped: bool = False
    weights_finite: bool = True
    tokens: int = 0


class Curve:
    """An append-only list of steps, with the seconds each took beside it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.seconds: list[float] = []

    def append(self, step: Step, seconds: float = math.nan) -> None:
        """Adds a step; `seconds` is the wall time it took."""
        self.steps.append(step)
        self.seconds.append(seconds)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def prefix(self, last_step: int) -> Curve:
        """The curve up to and including `last_step`."""
        part = Curve()
        part.steps = [step for step in self.steps if step.step <= last_step]
        part.seconds = self.seconds[: len(part.steps)]
        return part

    def to_parquet(self) -> bytes:
        """The steps as Parquet; equal steps give equal bytes, NaN and Inf included."""
        import pyarrow as pa

        columns = list(zip(*self.steps, strict=True)) or [()] * len(Step._fields)
        # A NaN has many bit patterns, which a byte comparison would tell apart: all become the one of `math.nan`.
        values = ([math.nan if value != value else value for value in column] for column in columns)
        return _parquet(pa.table(dict(zip(Step._fields, values, strict=True)), schema=_schema()))

    def timing_to_parquet(self) -> bytes:
        """Step number and seconds as Parquet."""
        import pyarrow as pa

        schema = pa.schema({"step": pa.int64(), "seconds": pa.float64()}, metadata=_version())
        return _parquet(pa.table({"step": [step.step for step in self.steps], "seconds": self.seconds}, schema=schema))

    @classmethod
    def from_parquet(cls, content: bytes, timing: bytes | None = None) -> Curve:
        """Inverse of `to_parquet` (and, if given, `timing_to_parquet`).

        Raises:
            NewerSchemaError: (a ValueError) if it is of a newer schema than this version reads.
            ValueError: if the content is not a curve, or the timing is not of its steps.
        """
        curve = cls()
        curve.steps = [Step(*row) for row in _rows(content, "curve", Step._fields)]
        curve.seconds = [math.nan] * len(curve.steps)
        if timing is not None:
            rows = _rows(timing, "timing", ("step", "seconds"))
            if [step for step, _ in rows] != [step.step for step in curve.steps]:
                raise ValueError("not the timing of this curve: its steps are others")
            curve.seconds = [seconds for _, seconds in rows]
        return curve


def _rows(content: bytes, what: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
    import pyarrow as pa

    try:
        table = read_parquet(content)
        version = int((table.schema.metadata or {})[b"keel_lab_schema"])
        if version > SCHEMA:
            raise NewerSchemaError(what, version, SCHEMA)
        columns = [table.column(name) for name in names]
    except (pa.ArrowException, OSError, KeyError) as error:  # OSError: a damaged page or footer
        raise ValueError(f"not a keel_lab {what}: {error}") from error
    if any(column.null_count for column in columns):
        raise ValueError(f"not a keel_lab {what}: it has holes")
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _version() -> dict[str, str]:
    return {"keel_lab_schema": str(SCHEMA)}


@functools.cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"step": pa.int64(), "tokens": pa.int64()}
    kinds |= dict.fromkeys(("clipped", "skipped", "weights_finite"), pa.bool_())
    fields = [pa.field(name, kinds.get(name, pa.float64())) for name in Step._fields]
    return pa.schema(fields, metadata=_version())


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
