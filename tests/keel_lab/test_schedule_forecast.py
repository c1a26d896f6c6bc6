"""When a sweep will be done: from trials that ended, from what runs, and from what storage knows."""

from __future__ import annotations

import math

import pytest

from keel_lab.detect.verdict import Status, Verdict
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule import forecast as forecast_module
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.forecast import Eta, Forecast
from tests.toy_sweep import planned, toy_trial


@pytest.fixture
def clock(monkeypatch):
    """Set `clock[0]` to make it that time."""
    now = [100.0]
    monkeypatch.setattr(forecast_module.time, "monotonic", lambda: now[0])
    return now


def took(one, seconds, **execution):
    facts = {"started_at": 1000.0, "finished_at": 1000.0 + seconds, "attempt": 1} | execution
    verdict = Verdict(Status.HEALTHY)
    return TrialResult(one.trial.id, Outcome.COMPLETED, one.trial.schedule.steps, verdict, {}, execution=facts)


def seeds(count, **trial):
    return [planned(toy_trial(seed=seed, **trial)) for seed in range(count)]


def test_nothing_is_known_before_the_first_step(clock):
    assert str(Forecast(seeds(3)).eta()) == "?"
    assert str(Forecast().eta()) == "under 1 s"


def test_what_storage_knows_counts_until_there_is_better(clock):
    trials = seeds(4, steps=100)
    known = Forecast(trials, prior={one.trial.id: 0.5 for one in trials})
    assert known.eta().seconds == pytest.approx(4 * 50.0)
    clock[0] += 10.0
    known.ended(trials[0].trial.id, took(trials[0], 10.0))
    assert known.eta().seconds == pytest.approx(30.0)


def test_trials_that_ended_are_enough_where_news_come_late(clock):
    """As with `--executor local`: the first the driver hears of a trial may be its end."""
    trials = seeds(3, steps=100)
    local = Forecast(trials)
    clock[0] += 20.0
    local.ended(trials[0].trial.id, took(trials[0], 20.0))
    assert local.eta().seconds == pytest.approx(40.0)


def test_workers_side_by_side_share_the_time(clock):
    trials = seeds(8, steps=100)
    both = Forecast(trials)
    both.news([Progress(one.trial.id, 1, 1.0, "healthy") for one in trials[:2]])
    clock[0] += 20.0
    for one in trials[:2]:
        both.ended(one.trial.id, took(one, 20.0))
    assert both.eta().seconds == pytest.approx(6 * 20.0 / 2)


def test_a_running_trial_tells_before_it_ends_and_a_resumed_one_only_what_it_does_now(clock):
    trials = seeds(2, steps=200)
    one = Forecast(trials)
    one.news([Progress(trials[0].trial.id, 100, 1.0, "healthy")])  # resumed at 100: no work of this run
    assert math.isnan(one.eta().seconds)
    clock[0] += 10.0
    one.news([Progress(trials[0].trial.id, 150, 1.0, "healthy")])
    assert one.eta().seconds == pytest.approx((50 + 200) * 10.0 / 50, rel=0.5)
    one.ended(trials[0].trial.id)
    one.ended(trials[1].trial.id)
    assert one.eta() == Eta(0.0, 0.0, 0.0)


def test_early_ends_count_as_what_trials_of_their_shape_cost(clock):
    trials = seeds(4, steps=100)
    some = Forecast(trials)
    for one, seconds in zip(trials[:2], (10.0, 2.0), strict=True):
        clock[0] += seconds
        some.ended(one.trial.id, took(one, seconds))
    assert some.eta().seconds == pytest.approx(2 * 6.0)


def test_the_last_trial_is_not_shared_among_workers(clock):
    trials = seeds(3, steps=100)
    last = Forecast(trials)
    last.news([Progress(one.trial.id, 1, 1.0, "healthy") for one in trials])
    clock[0] += 10.0
    for one in trials[:2]:
        last.ended(one.trial.id, took(one, 10.0))
    last.news([Progress(trials[2].trial.id, 11, 1.0, "healthy")])
    assert last.eta().seconds >= 89 * 0.1  # 89 steps of a tenth of a second, by one worker


def test_the_interval_narrows_as_trials_end(clock):
    trials = seeds(40, steps=100)
    narrowing = Forecast(trials, prior={one.trial.id: 0.1 for one in trials})
    widths = []
    for number, one in enumerate(trials[:30]):
        eta = narrowing.eta()
        assert eta.low < eta.seconds < eta.high
        widths.append(math.log(eta.high / eta.low))
        seconds = 10.0 + 0.5 * (-1) ** number
        clock[0] += seconds
        narrowing.ended(one.trial.id, took(one, seconds))
    assert min(widths[:3]) > widths[10] > widths[20]
    assert narrowing.eta().low <= 100.0 <= narrowing.eta().high


def test_a_shape_never_seen_takes_what_others_take_and_is_less_sure(clock):
    seen, unseen = seeds(8, steps=100), [planned(toy_trial("deep", seed=seed, steps=100)) for seed in range(4)]
    known, half = Forecast(seen), Forecast([*seen, *unseen])
    for one in seen[:4]:
        clock[0] += 10.0
        known.ended(one.trial.id, took(one, 10.0))
        half.ended(one.trial.id, took(one, 10.0))
    assert half.eta().seconds == pytest.approx(8 * 10.0)
    assert math.log(half.eta().high / half.eta().low) > math.log(known.eta().high / known.eta().low)


def test_a_clock_that_was_set_and_a_resumed_attempt_count_by_their_steps(clock):
    trials = seeds(3, steps=100)
    odd = Forecast(trials)
    clock[0] += 10.0
    odd.ended(trials[0].trial.id, took(trials[0], -3600.0, seconds_per_step=0.1))
    odd.ended(trials[1].trial.id, took(trials[1], 1.0, seconds_per_step=0.1, attempt=2))
    assert odd.eta().seconds == pytest.approx(100 * 0.1 / 2)


@pytest.mark.parametrize(
    ("eta", "words"),
    [
        (Eta(720.0, 540.0, 960.0), "12 min (9 min to 16 min)"),
        (Eta(720.0, 710.0, 730.0), "12 min"),
        (Eta(math.nan), "?"),
    ],
)
def test_an_eta_in_words(eta, words):
    assert str(eta) == words
