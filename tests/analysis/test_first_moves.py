"""What counts as having moved, on series whose truth is known."""

import math
import random

import pytest

from analysis.first_moves import before, departures, first_moves, window_of

ONSET = 201
STEPS = list(range(1, 252))  # the window of that onset; the first 125 are the baseline


def series(log_value, noise=0.1, seed=0):
    draw = random.Random(seed)
    return [[math.exp(log_value(step) + draw.gauss(0, noise))] for step in STEPS]


def moved(values, onset=ONSET, least=0.0):
    return departures("m", ["p"], values, STEPS, onset, least)


@pytest.mark.parametrize(("onset", "steps", "window"), [
    (327, 465, (127, 377)), (30, 500, (1, 80)), (480, 500, (280, 500)), (None, 600, (351, 600)), (None, 40, (1, 40)),
])  # fmt: skip
def test_the_window(onset, steps, window):
    assert window_of(onset, steps) == window


@pytest.mark.parametrize("jump", [1.5, -1.5])
def test_a_jump_is_dated_to_its_step(jump):
    (one,) = moved(series(lambda step: jump * (step >= 170)))
    assert (one.step, one.direction) == (170, "up" if jump > 0 else "down")
    assert one.factor == pytest.approx(math.exp(jump), rel=0.3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "steady",
    [lambda step: 0.0, lambda step: 0.02 * step, lambda step: -0.02 * step, lambda step: 3 * math.tanh(step / 90)],
    ids=["flat", "rising as before", "falling as before", "slowing down"],
)
def test_what_goes_on_as_before_has_not_moved(steady, seed):
    assert not moved(series(steady, seed=seed))


def test_a_rise_that_speeds_up_has_moved():
    (one,) = moved(series(lambda step: 0.01 * step + 0.05 * max(0, step - 160)))
    assert one.direction == "up"
    assert 163 <= one.step <= 178


def test_a_blip_and_what_comes_back_before_the_onset_have_not_moved():
    assert not moved(series(lambda step: 3.0 * (170 <= step < 174)))
    assert not moved(series(lambda step: 3.0 * (150 <= step < 180)))


def test_what_left_before_the_onset_may_come_back_after_it():
    (one,) = moved(series(lambda step: 3.0 * (190 <= step < 215)))
    assert one.step == 190
    assert not moved(series(lambda step: 3.0 * (190 <= step < 215)), onset=None)


def test_a_value_that_is_not_finite_is_beyond_any():
    values = series(lambda step: 0.0)
    for row in values[219:]:
        row[0] = math.nan
    (one,) = moved(values)
    assert (one.step, one.direction, one.factor) == (220, "up", math.inf)


def test_a_very_quiet_baseline_needs_a_factor():
    assert not moved(series(lambda step: 0.1 * (step >= 170), noise=1e-6))
    assert moved(series(lambda step: 0.3 * (step >= 170), noise=1e-6))


def test_what_stays_below_the_least_that_matters_has_not_moved():
    tiny = series(lambda step: -9 + 3 * (step >= 170))
    assert moved(tiny)
    assert not moved(tiny, least=1.0)
    assert moved(series(lambda step: -1 + 3 * (step >= 170)), least=1.0)


def test_nothing_is_said_from_a_short_baseline_or_without_positive_values():
    assert not departures("m", ["p"], series(lambda step: 2.0 * (step > 19))[:40], STEPS[:40], 20)
    assert not moved([[0.0] for _ in STEPS])
    assert not moved([[math.nan] for _ in STEPS])


def test_first_moves_are_ranked_and_counted():
    early, late = series(lambda step: 2.0 * (step >= 170)), series(lambda step: 2.0 * (step >= 230), seed=1)
    still = series(lambda step: 0.0, seed=2)
    found = {
        "late": departures("late", ["x"], late, STEPS, ONSET),
        "early": departures(
            "early", ["x", "y", "z"], [a + b + c for a, b, c in zip(late, early, still, strict=True)], STEPS, ONSET
        ),
        "still": departures("still", ["x"], still, STEPS, ONSET),
    }
    moves = first_moves(found, {"late": 1, "early": 3, "still": 1}, ONSET)
    assert [(move.departure.measure, move.departure.place, move.moved, move.places) for move in moves] == [
        ("early", "y", 1, 3),
        ("late", "x", 0, 1),
    ]
    assert [move.departure.measure for move in before(ONSET, moves)] == ["early"]
    assert before(None, moves) == []
