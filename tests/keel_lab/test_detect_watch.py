"""When a run stops, how long a ramp is held at its peak, and when a stored curve still answers."""

from __future__ import annotations

import math

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.max_lr import MaxLR, MaxLRKind, max_lr
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, State, Status, Verdict
from keel_lab.detect.watch import Watch, judge
from keel_lab.learning_rate import lr_at
from keel_lab.settings import GridSchedule, RampSchedule
from tests.simulated_curves import gaussian, losses

RAMP = RampSchedule(steps=600)
GRID = GridSchedule(lr=1e-3, steps=600, shape="constant")


def run(
    rise_at: int, height: float = 1.0, until: int = 10**9, schedule: RampSchedule | GridSchedule = RAMP
) -> list[Step]:
    """A curve of 1,000 steps that loses its level after `rise_at` and has it back after `until`."""
    values = losses(lambda t: 3.0 + (height if rise_at < t <= until else 0.0), gaussian(0.05), 1000, 0)
    return [Step(i + 1, value, lr_at(schedule, i + 1)) for i, value in enumerate(values)]


def watched(steps: list[Step], schedule: RampSchedule | GridSchedule, **thresholds: float) -> tuple[Watch, int]:
    watch = Watch(schedule, Thresholds(**thresholds))
    for step in steps:
        if not watch.update(step):
            return watch, step.step
    return watch, steps[-1].step


@pytest.mark.parametrize("schedule", [RAMP, GRID])
def test_a_healthy_run_goes_to_the_end_of_its_schedule_and_is_censored(schedule):
    watch, stopped = watched(run(10**9, schedule=schedule), schedule)
    assert (stopped, watch.finished, watch.state) == (600, True, State.HEALTHY)
    found = watch.verdict()
    assert (found.status, found.censored, found.last_good_step) == (Status.HEALTHY, True, 600)
    assert max_lr(found) == MaxLR(MaxLRKind.CENSORED, lr_at(schedule, 600))


@pytest.mark.parametrize("confirm", [50, 100])
def test_a_diverged_run_stops_as_soon_as_it_is_confirmed(confirm):
    watch, stopped = watched(run(300), RAMP, confirm_samples=confirm)
    evidence = watch.verdict().evidence
    assert stopped == evidence["confirmed_step"] == evidence["alarm_step"] + confirm < 600
    assert watch.state is State.DIVERGED
    assert watch.finished
    assert max_lr(watch.verdict()) == MaxLR(MaxLRKind.MEASURED, lr_at(RAMP, 300))
    assert watch.update(Step(stopped + 1, 3.0, 1.0)) is False
    assert watch.verdict().evidence == evidence


def test_a_ramp_suspect_at_its_last_step_is_held_until_confirmed():
    watch, stopped = watched(run(570), RAMP)
    found = watch.verdict()
    assert 600 < stopped <= 700
    assert watch.finished
    assert (found.status, found.last_good_step, found.last_good_lr) == (Status.DIVERGED, 570, lr_at(RAMP, 570))


def test_a_ramp_suspect_at_its_last_step_is_held_until_regained_and_then_censored():
    watch, stopped = watched(run(570, until=620), RAMP)
    found = watch.verdict()
    assert 620 < stopped < 660
    assert watch.finished
    assert watch.state is State.HEALTHY
    assert (found.status, found.censored, found.last_good_lr) == (Status.TRANSIENT, True, RAMP.peak_lr)
    assert max_lr(found) == MaxLR(MaxLRKind.CENSORED, RAMP.peak_lr)


def test_a_ramp_that_ends_on_a_non_finite_step_is_held_too():
    steps = run(10**9)
    steps[599] = steps[599]._replace(loss=math.nan)
    watch, stopped = watched(steps, RAMP)
    assert (stopped, watch.verdict().status) == (603, Status.TRANSIENT)


def test_a_rise_too_late_to_be_suspect_is_censored():
    watch, stopped = watched(run(595), RAMP)
    assert (stopped, watch.verdict().status) == (600, Status.HEALTHY)


def test_a_grid_schedule_is_not_extended_and_stays_unconfirmed():
    watch, stopped = watched(run(570, schedule=GRID), GRID)
    found = watch.verdict()
    assert (stopped, watch.finished) == (600, True)
    assert (found.status, found.mode, found.onset_step, found.censored) == (Status.UNCONFIRMED, None, 571, False)
    assert max_lr(found) == MaxLR(MaxLRKind.UNDECIDED)


def test_stagnation_is_judged_at_the_end():
    steps = run(10**9)
    watch = Watch(RAMP, Thresholds(), unigram_entropy=2.95)
    answers = [watch.update(step) for step in steps[:600]]
    assert answers == [True] * 599 + [False]
    assert watch.verdict().mode is Mode.STAGNATION


def test_a_curve_stopped_under_less_patience_is_reused_only_where_it_still_answers():
    whole = run(300)
    impatient, stopped = watched(whole, RAMP, confirm_samples=50)
    stored = whole[:stopped]
    same = judge(stored, RAMP, Thresholds(confirm_samples=50), None)
    assert same.finished
    assert same.verdict == impatient.verdict()
    patient = judge(stored, RAMP, Thresholds(), None)
    assert not patient.finished
    assert patient.verdict.status is Status.UNCONFIRMED
    hasty = judge(stored, RAMP, Thresholds(confirm_samples=20), None)
    assert hasty.finished
    assert hasty.verdict.evidence["confirmed_step"] == hasty.verdict.evidence["alarm_step"] + 20 < stopped


def test_a_curve_with_more_steps_than_needed_is_judged_on_those_it_would_have_had():
    steps = run(610)  # goes on past the ramp, and rises there
    assert judge(steps, RAMP, Thresholds(), None) == judge(steps[:600], RAMP, Thresholds(), None)
    assert judge(steps, RAMP, Thresholds(), None).verdict.last_good_step == 600


@pytest.mark.parametrize("length", [0, 5, 599])
def test_a_curve_that_is_too_short_is_not_finished(length):
    judged = judge(run(10**9)[:length], RAMP, Thresholds(), None)
    assert not judged.finished
    assert judged.verdict.status is (Status.HEALTHY if length > 8 else Status.UNDECIDED)


def test_judge_reads_a_stored_curve_to_the_same_bytes():
    curve = Curve()
    for step in run(300):
        curve.append(step)
    verdicts = {str(judge(c, RAMP, Thresholds(), 3.5).verdict.to_json()) for c in (curve, curve, curve.steps)}
    assert len(verdicts) == 1


def test_max_lr_needs_an_lr():
    diverged = Verdict(Status.DIVERGED, Mode.IRRECOVERABLE, onset_step=5, last_good_step=4)
    assert max_lr(diverged) == MaxLR(MaxLRKind.UNDECIDED)
