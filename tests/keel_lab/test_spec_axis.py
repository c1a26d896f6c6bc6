from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel_lab.errors import SpecError
from keel_lab.spec import SweepSpec, axis

Reader = Callable[..., SweepSpec]


def values(spec: SweepSpec, key: str) -> tuple[Any, ...]:
    return next(found.values for found in spec.axes if found.key == key)


def test_a_log_range_has_exact_ends_and_no_near_misses(read: Reader, grid_text: str) -> None:
    spec = read(grid_text, "grid.lr={log: [1e-4, 1e-1, 4]}")
    assert values(spec, "schedule.lr") == (1e-4, 1e-3, 1e-2, 1e-1)


def test_a_linear_range_is_exact_on_the_decimals_as_written(read: Reader, grid_text: str) -> None:
    assert values(read(grid_text, "grid.lr={linear: [0.1, 0.3, 3]}"), "schedule.lr") == (0.1, 0.2, 0.3)


def test_integers_stay_integers(read: Reader, grid_text: str) -> None:
    blocks = values(read(grid_text, "grid.depth.blocks={log: [4, 32, 4]}"), "blocks")
    assert blocks == (4, 8, 16, 32)
    assert {type(value) for value in blocks} == {int}
    assert values(read(grid_text, "grid.seed={linear: [0, 9, 10]}"), "seed") == tuple(range(10))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{log: [4, 33, 4]}", "whole numbers"),
        ("{linear: [4, 33, 4]}", "whole numbers"),
        ("{linear: [4.0, 8.0, 2]}", "whole numbers"),
        ("{log: [4, 32]}", "three numbers"),
        ("{log: [4, 32, 1]}", "from 2 to"),
        ("{log: [4, 32, 4.0]}", "from 2 to"),
        ("{log: [4, 32, 100000]}", "from 2 to"),
        ("{log: [32, 4, 4]}", "lo must be below hi"),
        ("{log: [4, 4, 4]}", "lo must be below hi"),
        ("{log: [0, 4, 4]}", "above 0"),
        ("{log: [4, x, 4]}", "three numbers"),
        ("{log: [4, .inf, 4]}", "three numbers"),
        ("{log: [4, true, 4]}", "three numbers"),
        ("{log: 4}", "three numbers"),
        ("{lgo: [4, 8, 2]}", "did you mean log"),
        ("{log_uniform: [4, 8]}", "{linear: [lo, hi, n]}"),
        ("{choice: [4, 8]}", "{linear: [lo, hi, n]}"),
        ("{log: [4, 8, 2], linear: [4, 8, 2]}", "{linear: [lo, hi, n]}"),
        ("{}", "{linear: [lo, hi, n]}"),
        ("[[4]]", "an integer"),
        ("[{log: [4, 8, 2]}]", "an integer"),
        ("[]", "empty list"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(read: Reader, grid_text: str, text: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(grid_text, f"grid.depth.blocks={text}")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("grid.lr", "[1e-4, 0.0001]", "0.0001, the same value as 1e-4"),
        ("grid.lr", "[1, 1.0]", "1.0, the same value as 1"),
        ("grid.seed", "[0, 0]", "0 twice"),
        ("grid.alpha", "[2L, '2 * L']", '"2 * L", the same value as 2L'),
        ("grid.alpha", "[1, 1.0]", "1.0, the same value as 1"),
        ("grid.architecture", "[keel, keel]", "keel twice"),
        ("train.betas", "[[0.9, 0.95], [0.90, 0.95]]", "[0.90, 0.95], the same value as [0.9, 0.95]"),
        ("schedule.warmup", "[5%, 5.0%]", "5.0%, the same value as 5%"),
    ],
)
def test_a_value_given_twice_is_refused_by_value_not_by_spelling(
    read: Reader, grid_text: str, key: str, text: str, found: str
) -> None:
    with pytest.raises(SpecError) as caught:
        read(grid_text, f"{key}={text}")
    assert [problem.found for problem in caught.value.problems] == [found]


@given(st.floats(1e-12, 1e3), st.floats(1.001, 1e6), st.integers(2, 60))
def test_log_ranges_rise_and_keep_their_ends(low: float, ratio: float, count: int) -> None:
    high = low * ratio
    got = axis._log(low, high, count)
    assert (got[0], got[-1], len(got)) == (low, high, count)
    assert got == sorted(set(got))
