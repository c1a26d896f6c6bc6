"""Published rules on curves small enough to work out by hand; each alarms where its source would, and not before."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.published_rules import (
    RULES,
    NonFiniteOnly,
    PageHinkley,
    SigmaSpike,
    TimesBest,
    TimesEarlyMax,
    TimesMean,
    first_alarm,
)


def alarm(rule, losses):
    return first_alarm(rule, ((loss, not math.isfinite(loss)) for loss in losses))


def index(rule, losses):
    found = alarm(rule, losses)
    return None if found is None else found.sample


def swinging(n, middle=3.0, swing=0.1):
    """Alternates, so that mean and deviation are known."""
    return [middle + swing * (-1) ** i for i in range(n)]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_alarms_on_what_is_not_finite_and_says_so(name):
    found = alarm(RULES[name](), [*swinging(150), math.nan, 3.0])
    assert found == (150, True)
    assert alarm(RULES[name](), swinging(150)) is None


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_causal(name):
    r = random.Random(1)
    losses = [5 * math.exp(-i / 60) + 2 + r.gauss(0, 0.1) for i in range(200)] + [60 + i for i in range(100)]
    found = alarm(RULES[name](), losses)
    if name == "non_finite_only":
        assert found is None
        return
    assert found is not None
    assert 200 <= found.sample < 300
    seen = found.sample + RULES[name]().wait + 1  # samples up to the alarm
    assert alarm(RULES[name](), losses[:seen]) == found
    assert alarm(RULES[name](), losses[: seen - 1]) is None


def test_only_what_is_not_finite():
    assert index(NonFiniteOnly(), [3.0, 1e9, math.inf]) == 2


def test_sigma_spike_counts_from_the_last_128():
    window = swinging(128)  # mean 3, unbiased deviation 0.1 * sqrt(128 / 127)
    reach = 6 * 0.1 * math.sqrt(128 / 127)
    assert index(SigmaSpike(), [*window, 3.0 + reach - 1e-6]) is None
    assert index(SigmaSpike(), [*window, 3.0 + reach + 1e-6]) == 128
    assert index(SigmaSpike(), [*window, 3.0 - 2 * reach]) is None  # a fall
    assert index(SigmaSpike(), [*swinging(300, 9.0, 2.0), *window, 3.0 + reach + 1e-6]) == 428  # the old is forgotten


def test_sigma_spike_waits_for_half_a_window():
    assert index(SigmaSpike(), [*swinging(62), 9.0]) is None
    assert index(SigmaSpike(), [*swinging(63), 9.0]) == 63


def test_times_best_is_smoothed():
    # After k steps at 9, from n at 1, the mean is 9 - 8 * w with w = 0.98^k (1 - 0.98^n) / (1 - 0.98^(n + k)).
    first = next(k for k in range(1, 99) if 9 - 8 * 0.98**k * (1 - 0.98**50) / (1 - 0.98 ** (50 + k)) > 4)
    assert first > 1
    assert index(TimesBest(), [1.0] * 50 + [9.0] * 40) == 50 + first - 1
    assert index(TimesBest(), [1.0] * 50 + [3.9] * 400) is None
    assert index(TimesBest(), [9.0] * 50 + [1.0] * 400) is None


def test_times_best_equals_the_smoothing_of_an_unbiased_mean():
    losses = [2.0, 7.0, 1.0]
    weights = [0.98**2, 0.98, 1.0]
    smooth = math.fsum(w * loss for w, loss in zip(weights, losses, strict=True)) / math.fsum(weights)
    assert index(TimesBest(factor=smooth / 2 * 0.999), losses) is not None
    assert index(TimesBest(factor=4.5 / 2 * 1.01), losses) is None


def test_times_early_max_looks_after_the_first_hundred():
    start = [6.0, *[3.0] * 99]
    assert index(TimesEarlyMax(), [*start, 59.9]) is None
    assert index(TimesEarlyMax(), [*start, 60.0]) == 100
    assert index(TimesEarlyMax(), [3.0, 1e6, *[3.0] * 98, 1e6]) is None


def test_times_mean_wants_five_in_a_row_and_dates_the_first():
    calm = [1.0] * 100
    assert index(TimesMean(), [*calm, *[2.5] * 4, 1.0, *[2.5] * 4, 1.0]) is None
    assert index(TimesMean(), [*calm, *[2.5] * 5]) == 100
    assert index(TimesMean(), [*[1.0] * 99, *[2.5] * 4]) is None  # the window must be full first
    assert index(TimesMean(), [*calm, *[1.9] * 20]) is None


def test_page_hinkley_sums_what_exceeds_the_running_mean():
    """A level of 0 to sample 99, then 10: the mean after k of these is 10 k / (100 + k)."""
    total, k = 0.0, 0
    while total < 50.0:
        k += 1
        total = (1 - 0.0001) * total + 10 - 10 * k / (100 + k) - 0.005
    assert index(PageHinkley(alpha=1 - 0.0001), [0.0] * 100 + [10.0] * 50) == 100 + k - 1
    assert index(PageHinkley(), [10.0] * 100 + [0.0] * 500) is None


def test_page_hinkley_finds_what_the_documentation_of_river_shows():
    """The stream of its docstring's example, and the index it prints."""
    r = random.Random(12345)
    stream = r.choices([0, 1], k=1000) + r.choices(range(4, 8), k=1000)
    assert index(PageHinkley(), stream) == 1006


def test_page_hinkley_is_silent_at_first():
    assert index(PageHinkley(), [0.0, *[60.0] * 40]) == 28


def test_page_hinkley_in_sigma_has_no_unit():
    r = random.Random(0)
    losses = [3 + r.gauss(0, 0.1) for _ in range(100)] + [3.8 + r.gauss(0, 0.1) for _ in range(100)]
    found = index(PageHinkley(in_sigma=True), losses)
    assert found is not None
    assert 100 < found < 120
    assert index(PageHinkley(in_sigma=True), [100 * loss for loss in losses]) == found
    assert index(PageHinkley(), losses) > found + 50  # 0.8 nats above is 8 sigma


def test_a_constant_curve_has_no_alarm():
    for make in RULES.values():
        assert alarm(make(), [3.0] * 400) is None
