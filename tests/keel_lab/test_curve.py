"""Curves: deterministic Parquet that keeps NaN, Inf and every digit."""

import io
import math
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keel_lab.curve import SCHEMA, Curve, Step
from keel_lab.errors import NewerSchemaError

STEPS = [
    Step(1, 5.545, 1e-5, 5.5, 1.25, True, False, True, 256),
    Step(2, math.nan, 3e-5, math.nan, math.inf, False, True, True, 512),
    Step(3, -math.inf, 0.1, 5.4, math.nan, True, True, False, 768),
]


def curve_of(steps, seconds=0.5):
    curve = Curve()
    for step in steps:
        curve.append(step, seconds)
    return curve


def same(left, right):
    return [list(map(repr, step)) for step in left] == [list(map(repr, step)) for step in right]


@pytest.mark.parametrize("steps", [[], STEPS], ids=["empty", "non-finite"])
def test_round_trip_keeps_every_value_and_type(steps):
    curve = curve_of(steps)
    back = Curve.from_parquet(curve.to_parquet(), curve.timing_to_parquet())
    assert same(back, curve)
    assert back.seconds == curve.seconds


def test_seconds_are_unknown_without_timing():
    back = Curve.from_parquet(curve_of(STEPS).to_parquet())
    assert len(back) == 3
    assert all(math.isnan(seconds) for seconds in back.seconds)


def test_bytes_do_not_depend_on_seconds_nor_on_a_nans_bits():
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
    assert struct.pack("<d", other_nan) != struct.pack("<d", math.nan)
    steps = [step._replace(loss=other_nan) if math.isnan(step.loss) else step for step in STEPS]
    assert curve_of(STEPS, 0.5).to_parquet() == curve_of(steps, 7.0).to_parquet()


def test_other_steps_give_other_bytes():
    changed = [STEPS[0]._replace(loss=math.nextafter(STEPS[0].loss, 10)), *STEPS[1:]]
    assert curve_of(changed).to_parquet() != curve_of(STEPS).to_parquet()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(width=64), st.floats(width=64), st.booleans()), max_size=20))
def test_any_floats_survive(values):
    curve = curve_of([Step(i, loss, lr, clipped=flag) for i, (loss, lr, flag) in enumerate(values, 1)])
    assert same(Curve.from_parquet(curve.to_parquet()), curve)


def test_prefix_ends_at_the_step_with_its_seconds():
    curve = Curve()
    for i, step in enumerate(STEPS):
        curve.append(step, float(i))
    part = curve.prefix(2)
    assert same(part, STEPS[:2])
    assert part.seconds == [0.0, 1.0]


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"", lambda b: b"PAR1" + b[4:40], lambda b: b"{}"])
def test_damaged_bytes_are_refused(damage):
    with pytest.raises(ValueError, match="not a keel_lab curve"):
        Curve.from_parquet(damage(curve_of(STEPS).to_parquet()))


def rewritten(content, change):
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(content))), sink)
    return sink.getvalue()


def test_a_newer_schema_is_refused_by_number():
    newer = rewritten(
        curve_of(STEPS).to_parquet(), lambda table: table.replace_schema_metadata({"keel_lab_schema": str(SCHEMA + 1)})
    )
    with pytest.raises(NewerSchemaError, match=f"schema {SCHEMA + 1}.*upgrade keel-lab"):
        Curve.from_parquet(newer)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["lr"]),
        lambda table: table.replace_schema_metadata(None),
        lambda table: table.set_column(1, "loss", pa.array([1.0, None, 2.0])),
    ],
    ids=["column missing", "no schema", "hole"],
)
def test_other_parquet_is_no_curve(change):
    with pytest.raises(ValueError, match="not a keel_lab curve"):
        Curve.from_parquet(rewritten(curve_of(STEPS).to_parquet(), change))


def test_the_timing_of_other_steps_is_refused():
    curve = curve_of(STEPS)
    with pytest.raises(ValueError, match="not the timing of this curve"):
        Curve.from_parquet(curve.to_parquet(), curve.prefix(2).timing_to_parquet())
