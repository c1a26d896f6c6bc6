from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.plan import expand
from keel_lab.spec import SweepSpec
from keel_lab.spec.label import duration_text, label_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1e-5"),
        (3e-5, "3e-5"),
        (1e-4, "1e-4"),
        (2.5e-4, "2.5e-4"),
        (0.001, "0.001"),
        (0.0, "0"),
        (1.0, "1"),
        (600.0, "600"),
        (3e6, "3e6"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "5e-324"),
        (-1e-5, "-1e-5"),
        (600, "600"),
        (True, "true"),
        (False, "false"),
        ("L^0.25", "L^0.25"),
    ],
)
def test_labels_are_short(value: str | float | bool, text: str) -> None:
    assert label_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_labels_read_back_as_the_very_same_number(value: float) -> None:
    assert float(label_text(value)) == value


def test_case_11_names_tell_close_rates_apart(
    read: Callable[..., SweepSpec], grid_text: str, catalogue: Catalogue, facts: CorpusFacts
) -> None:
    """CASES 11: 1e-5 and 3e-5 were both shown as 0.0000."""
    spec = read(grid_text, "grid.lr=[1e-5, 3e-5, 3.0000001e-5]", "grid.seed=0", "grid.architecture=keel")
    plan = expand(spec, catalogue, facts)
    assert [planned.name for planned in plan.trials] == [
        "keel-b4-lr=1e-5-s0",
        "keel-b4-lr=3e-5-s0",
        "keel-b4-lr=3.0000001e-5-s0",
    ]
    assert str(plan.trials[0].cell) == "keel 4 blocks lr=1e-5"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "under 1 s"),
        (45.2, "45 s"),
        (720.0, "12 min"),
        (12_000.0, "3 h 20 min"),
        (200_000.0, "2 d 7 h"),
        (math.nan, "?"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
