"""What Optuna is told of a point, by objective, from results and curves made up for it."""

from __future__ import annotations

import math

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.errors import UsageError
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.search.telling import Run, tell
from keel_lab.settings import GridSchedule, RampSchedule
from keel_lab.spec.search import Chosen, Objective, SearchSpec
from keel_lab.store.points import State
from tests.toy_sweep import toy_trial

STEPS, PER_STEP, H1 = 40, 8 * 32, 3.0
HEALTHY = Verdict(Status.HEALTHY, last_good_step=STEPS, last_good_lr=1e-2, censored=True, learned=True)
LOST = Verdict(Status.DIVERGED, Mode.COLLAPSE, onset_step=21, last_good_step=20, last_good_lr=5e-3, learned=True)
STUCK = Verdict(Status.DIVERGED, Mode.STAGNATION, learned=False)


def run(verdict=HEALTHY, ramp=False, seed=0, **metrics) -> Run:
    schedule = RampSchedule(steps=STEPS) if ramp else GridSchedule(lr=1e-2, steps=STEPS, warmup_steps=4)
    trial = toy_trial(seed=seed).with_schedule(schedule)
    planned = PlannedTrial(trial, Cell("toy", 4), {"seed": seed}, 1000)
    lost = verdict.status is Status.DIVERGED
    result = TrialResult(
        trial.id,
        Outcome.DIVERGED if lost else Outcome.COMPLETED,
        STEPS,
        verdict,
        {},
        metrics={name: float(value) for name, value in metrics.items()},
        data={"unigram_entropy": H1},
    )
    curve = Curve()
    for step in range(1, STEPS + 1):  # from 4 to 2 nats, but for what was lost
        loss = 4.0 if verdict is LOST and step > 20 else 4.0 - 2.0 * step / STEPS
        curve.append(Step(step, loss, 1e-3, H1, tokens=step * PER_STEP))
    return Run(planned, result, lambda: curve)


def search(*objectives: Objective) -> SearchSpec:
    return SearchSpec((), objectives, rungs=4, pruner=Chosen("none"))


VAL = Objective("val_loss", "minimize")
MAX_LR = Objective("max_lr", "maximize")


def test_a_loss_is_the_mean_over_seeds_with_the_rungs_on_its_way() -> None:
    found = tell(search(VAL), [run(val_loss=2.0), run(seed=1, val_loss=2.2)])
    assert (found.state, found.values) == (State.COMPLETE, (pytest.approx(2.1),))
    assert list(found.rungs) == [10 * PER_STEP, 20 * PER_STEP, 30 * PER_STEP, 40 * PER_STEP]
    assert found.rungs[20 * PER_STEP] == pytest.approx(4.0 - 2.0 * 19.5 / STEPS)


def test_one_diverged_seed_prunes_the_point_with_what_all_seeds_reached_in_good_order() -> None:
    found = tell(search(VAL), [run(val_loss=2.0), run(LOST, seed=1, val_loss=4.0)])
    assert (found.state, found.values) == (State.PRUNED, None)
    assert list(found.rungs) == [10 * PER_STEP, 20 * PER_STEP]
    assert found.facts == {"diverged": 1, "modes": ["collapse"]}


def test_a_run_that_never_learned_is_told_its_loss() -> None:
    found = tell(search(VAL), [run(STUCK, val_loss=3.1)])
    assert (found.state, found.values) == (State.COMPLETE, (3.1,))


@pytest.mark.parametrize(
    ("verdict", "state", "values", "facts"),
    [
        (LOST, State.COMPLETE, (5e-3,), {}),
        (HEALTHY, State.COMPLETE, (1e-2,), {"censored": 1}),
        (STUCK, State.PRUNED, None, {"why": "not learned at this slope"}),
        (Verdict(Status.UNDECIDED), State.PRUNED, None, {"why": "undecided"}),
    ],
)
def test_max_lr(verdict, state, values, facts) -> None:
    found = tell(search(MAX_LR), [run(verdict, ramp=True)])
    assert (found.state, found.facts) == (state, facts)
    assert found.values == (None if values is None else pytest.approx(values))
    assert not found.rungs


def test_max_lr_over_seeds_is_a_mean_in_logs_and_censored_if_one_is() -> None:
    found = tell(search(MAX_LR), [run(LOST, ramp=True), run(HEALTHY, ramp=True, seed=1)])
    assert found.values == (pytest.approx(math.sqrt(5e-5)),)
    assert found.facts == {"censored": 1}


def test_several_objectives_complete_with_divergence_as_a_constraint() -> None:
    good = tell(search(VAL, MAX_LR), [run(val_loss=2.0), run(LOST, ramp=True)])
    assert (good.state, good.values, good.constraint) == (State.COMPLETE, (2.0, pytest.approx(5e-3)), 0.0)
    bad = tell(search(VAL, MAX_LR), [run(LOST), run(LOST, ramp=True)])
    assert (bad.state, bad.constraint) == (State.COMPLETE, 1.0)  # a run without the metric is broken altogether
    assert all(map(math.isfinite, bad.values))
    unknown = tell(search(VAL, MAX_LR), [run(val_loss=2.0), run(STUCK, ramp=True)])
    assert unknown.constraint == 1.0


def test_a_later_divergence_breaks_the_constraint_less() -> None:
    found = tell(search(Objective("cost", "minimize"), MAX_LR), [run(LOST), run(LOST, ramp=True)])
    assert found.constraint == pytest.approx(0.5)


def test_tokens_to_a_loss_cost_and_final_loss_come_from_the_curve() -> None:
    reach = Objective("tokens_to_loss", "minimize", 3.0)
    assert tell(search(reach), [run()]).values == (pytest.approx(21 * PER_STEP),)  # the mean of 2 steps is at most 3
    never = tell(search(Objective("tokens_to_loss", "minimize", 1.0)), [run()])
    assert (never.state, never.facts) == (State.PRUNED, {"why": "tokens_to_loss not reached"})
    assert tell(search(Objective("cost", "minimize")), [run()]).values == (6 * 1000 * STEPS * PER_STEP,)
    final = tell(search(Objective("final_loss", "minimize")), [run()])
    assert final.values == (pytest.approx(2.0 + 0.5 * 2.0 / STEPS),)


def test_a_metric_that_is_not_reported_is_an_error_and_one_that_was_not_finite_is_pruned() -> None:
    with pytest.raises(UsageError, match="the trials report no such metric"):
        tell(search(Objective("accuracy", "maximize")), [run(val_loss=2.0)])
    one = run(val_loss=2.0)
    one.result.execution["nonfinite_metrics"] = ["accuracy"]
    found = tell(search(Objective("accuracy", "maximize")), [one])
    assert found.state is State.PRUNED
