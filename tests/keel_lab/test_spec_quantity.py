from __future__ import annotations

from fractions import Fraction

import pytest

from keel_lab.spec import quantity


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2GiB", 2 * 2**30),
        ("512MiB", 2**29),
        ("2 GB", 2 * 10**9),
        ("1.5GiB", 3 * 2**29),
        (2**30, 2**30),
        ("2048KiB", 2**21),
    ],
)
def test_memory(value: object, expected: int) -> None:
    assert quantity.memory_bytes(value) == expected


@pytest.mark.parametrize(
    "value", [2, 0, -1, 2.5, True, None, "2", "2gib", "GiB", "2GiB!", "-1GiB", "9" * 39 + "TB", [1]]
)
def test_memory_that_is_unclear_or_tiny_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="2GiB"):
        quantity.memory_bytes(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("90m", 5400),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d 2h", 93_600),
        ("30s", 30),
        (90, 90),
        (1.5, 1.5),
        ("0.5h", 1800),
    ],
)
def test_durations(value: object, expected: float) -> None:
    assert quantity.seconds(value) == expected


@pytest.mark.parametrize(
    "value", [0, -1, True, None, "", "90", "5 weeks", "30m2h", "2h2h", float("inf"), float("nan"), 10**400]
)
def test_durations_that_are_unclear_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="90m"):
        quantity.seconds(value)


@pytest.mark.parametrize("value", [0.1, 1, "0.1", "100%", "-1%", "%", "1e1%", None, True, ["10%"]])
def test_percentages_need_their_sign_and_stay_under_100(value: object) -> None:
    with pytest.raises(ValueError, match="10%"):
        quantity.fraction(value)


def test_percentages_are_exact_and_have_one_spelling() -> None:
    assert quantity.fraction("12.5%") == Fraction(1, 8)
    assert {quantity.percentage(text) for text in ("10%", "10.0%", "10. %")} == {"10%"}
    assert quantity.percentage("0.1234567%") == "0.1234567%"


@pytest.mark.parametrize(
    ("share", "steps", "expected"), [("10%", 600, 60), ("10%", 605, 61), ("0%", 600, 0), ("10%", 604, 60)]
)
def test_warmup_is_the_nearest_whole_step_halves_up(share: str, steps: int, expected: int) -> None:
    assert quantity.warmup_steps(share, steps) == expected
