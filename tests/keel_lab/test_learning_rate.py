from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel_lab.learning_rate import lr_at
from keel_lab.settings import GridSchedule, RampSchedule

PAPER = RampSchedule(shape="linear", from_lr=0.0, peak_lr=5e-2, steps=5000)


def test_the_papers_ramp_takes_1e_5_a_step() -> None:
    assert lr_at(PAPER, 1) == pytest.approx(1e-5, rel=1e-12)
    assert lr_at(PAPER, 1000) == pytest.approx(1e-2, rel=1e-12)
    assert lr_at(PAPER, 5000) == 5e-2


def test_a_log_ramp_is_geometric_between_exact_ends() -> None:
    ramp = RampSchedule(shape="log", from_lr=1e-4, peak_lr=1.0, steps=5)
    assert [lr_at(ramp, step) for step in range(1, 6)] == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0], rel=1e-12)
    assert (lr_at(ramp, 1), lr_at(ramp, 5)) == (1e-4, 1.0)


def test_a_ramp_holds_its_peak() -> None:
    assert lr_at(PAPER, 5001) == lr_at(PAPER, 10**9) == 5e-2


@given(st.floats(1e-9, 1e-2), st.floats(1.01, 1e6), st.integers(2, 5000), st.sampled_from(["log", "linear"]), st.data())
def test_a_ramp_only_rises(start: float, ratio: float, steps: int, shape: str, data: st.DataObject) -> None:
    ramp = RampSchedule(shape=shape, from_lr=start, peak_lr=start * ratio, steps=steps)  # type: ignore[arg-type]
    step = data.draw(st.integers(1, steps - 1))
    before, after = lr_at(ramp, step), lr_at(ramp, step + 1)
    assert start <= before < after <= ramp.peak_lr


def test_a_grid_schedule_warms_up_and_falls_to_its_final_rate() -> None:
    schedule = GridSchedule(lr=1e-3, steps=100, warmup_steps=10, final_lr=1e-7)
    assert lr_at(schedule, 1) == pytest.approx(1e-4)
    assert lr_at(schedule, 10) == 1e-3
    assert lr_at(schedule, 55) == pytest.approx((1e-3 + 1e-7) / 2)
    assert lr_at(schedule, 100) == pytest.approx(1e-7)
    assert lr_at(schedule, 101) == lr_at(schedule, 100)


def test_a_constant_schedule_stays() -> None:
    schedule = GridSchedule(shape="constant", lr=2e-3, steps=100, warmup_steps=0)
    assert {lr_at(schedule, step) for step in (1, 50, 100)} == {2e-3}


@pytest.mark.parametrize("step", [0, -1])
def test_steps_count_from_one(step: int) -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        lr_at(PAPER, step)
    assert math.isfinite(lr_at(PAPER, 1))
