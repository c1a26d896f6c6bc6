"""What a run says of itself, and which points of a curve are drawn."""

import json
import math

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.settings import GridSchedule, ModelSettings, RampSchedule, TrainSettings
from keel_lab.track import fields, points
from keel_lab.trial import Trial

CENSORED = Verdict(Status.HEALTHY, last_good_step=600, last_good_lr=0.1, censored=True, learned=True)
COLLAPSED = Verdict(Status.DIVERGED, Mode.COLLAPSE, 301, 300, 0.0123, learned=True)


def planned(schedule=None, *, init_seed=0, data_seed=0):
    trial = Trial(
        architecture="keel",
        options={"alpha": 32.0, "first_norm": False},
        blocks=16,
        model=ModelSettings(),
        data=None,
        train=TrainSettings(),
        schedule=schedule or RampSchedule(),
        init_seed=init_seed,
        data_seed=data_seed,
    )
    labels = {"alpha": "L", "seed": init_seed, "model.width": 32}
    return PlannedTrial(trial, Cell("keel", 16, (("alpha", "L"),)), labels, 12345)


def result(outcome=Outcome.DIVERGED, **more):
    return TrialResult("x", outcome, 600, COLLAPSED, {}, **more)


def test_params_carry_the_rule_and_the_number_it_became():
    found = fields.identity(planned())
    assert found["alpha"] == "L"
    assert found["alpha_value"] == "32.0"
    assert (found["blocks"], found["sublayers"], found["lr"], found["log10_lr"]) == ("16", "32", "0.1", "-1.0")
    assert (found["seed"], found["init_seed"], found["data_seed"]) == ("0", "0", "0")
    assert found["first_norm"] == "false"
    assert found["cell"] == "keel 16 blocks alpha=L"
    assert all(isinstance(value, str) for value in found.values())


def test_seeds_that_differ_have_no_common_name():
    found = fields.identity(planned(init_seed=1, data_seed=2))
    assert (found["init_seed"], found["data_seed"]) == ("1", "2")
    assert found["seed"] == "1"  # as the sweep file labels it


@pytest.mark.parametrize("lrs", [(1e-5, 3e-5), (0.1, 0.1000001)])
def test_learning_rates_that_differ_read_differently(lrs):
    texts = [fields.identity(planned(RampSchedule(from_lr=0, peak_lr=lr)))["lr"] for lr in lrs]
    assert [float(text) for text in texts] == list(lrs)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (COLLAPSED, "0.0123"),
        (CENSORED, "> 0.1 (censored)"),
        (Verdict(Status.UNCONFIRMED, None, 590, 589, 0.09), "undecided"),
        (Verdict(Status.DIVERGED, Mode.STAGNATION, 1, None, None, learned=False), "not learned at this slope"),
        (Verdict(Status.UNDECIDED), "undecided"),
    ],
)
def test_max_lr_in_words_never_hides_censoring(verdict, words):
    assert fields.conclusion(planned(), result(), verdict)["max_lr"] == words
    numbers = fields.finals(planned(), result(), verdict, Curve())
    assert ("final/max_lr" in numbers) == (verdict is COLLAPSED)


def test_a_schedule_that_falls_again_has_no_max_lr():
    grid = planned(GridSchedule(lr=3e-3))
    assert "max_lr" not in fields.conclusion(grid, result(), CENSORED)
    assert not {key for key in fields.finals(grid, result(), CENSORED, Curve()) if key.endswith("_lr")}


def test_final_metrics_are_finite_and_capped():
    curve = Curve()
    curve.append(Step(1, 5.0, 1e-4, unigram_loss=5.5, clipped=True, tokens=256))
    curve.append(Step(2, 1e6, 1e-3, unigram_loss=5.5, tokens=512))
    curve.append(Step(3, math.nan, 1e-2, unigram_loss=5.5, tokens=768))
    odd = result(
        metrics={"val_loss": math.inf, "val/acc": -math.inf, "big": 1e300, "ok": 2}, data={"unigram_entropy": 5}
    )
    found = fields.finals(planned(), odd, COLLAPSED, curve)
    assert all(math.isfinite(value) for value in found.values())
    assert found["final/loss"] == fields.LOSS_CAP
    assert found["final/best_loss"] == 5.0
    assert found["final/big"] == fields.VALUE_CAP
    assert found["final/ok"] == 2.0
    assert found["final/clipped_fraction"] == pytest.approx(1 / 3)
    assert found["final/diverged"] == 1.0
    assert not {"val/loss", "val/acc"} & set(found)


def test_tags_say_how_it_was_run_and_ended():
    ran = result(execution={"torch": "2.13.0", "device": "cpu", "deep": {"threads": 1}})
    found = fields.final_tags(planned(), ran, COLLAPSED)
    assert found["torch_version"] == "2.13.0"
    assert found["execution.deep.threads"] == "1"
    assert (found["verdict"], found["mode"], found["onset_step"]) == ("diverged", "collapse", "301")
    assert "diverged (collapse) from step 301; Max LR 0.0123; 600 steps." in found["mlflow.note.content"]
    failed = fields.failure_tags(planned(), Failure(FailureKind.OOM, "killed"))
    assert (failed["outcome"], failed["failure"]) == ("failed", "oom")


def test_evidence_is_strict_json():
    ready = fields.json_ready({"sigma": math.nan, "levels": [math.inf, 1.0], "rule": "cusum"})
    assert json.loads(json.dumps(ready, allow_nan=False)) == {"sigma": "nan", "levels": ["inf", 1.0], "rule": "cusum"}


def test_chart_values_are_finite_named_and_have_the_log_of_the_lr():
    found = points.chart_values({"loss": 1.0, "lr": 0.01, "grad_norm": math.nan, "diag/x": math.inf})
    assert found == {"train/loss": 1.0, "train/lr": 0.01, "train/log10_lr": -2.0}
    assert "train/log10_lr" not in points.chart_values({"lr": 0.0})


def test_a_step_without_unigram_level_has_no_paired_loss():
    step = Step(1, 2.0, 0.1, unigram_loss=3.5)
    assert points.step_values(step, 3.0)["train/paired_loss"] == 1.5
    assert "train/paired_loss" not in points.step_values(step, None)


@pytest.mark.parametrize("steps", [10, 300, 301, 600, 5000])
def test_a_schedule_gives_some_hundred_points(steps):
    curve = Curve()
    for number in range(1, steps + 1):
        curve.append(Step(number, 1.0, 0.1))
    every = points.stride(planned(RampSchedule(steps=steps)).trial)
    drawn = [curve.steps[i].step for i in points.thinned(curve, every, {7, None})]
    assert {7, steps} <= set(drawn)
    assert min(steps, 100) <= len(drawn) <= points.POINTS + 2


def test_times_fill_the_run_and_never_go_back():
    curve = Curve()
    for number, seconds in enumerate([1.0, math.nan, 3.0], 1):
        curve.append(Step(number, 1.0, 0.1), seconds)
    assert points.times(curve, 1000, 7000) == [2000, 4000, 7000]
    assert points.times(Curve(), 1000, 7000) == []
    curve.seconds = [0.0, 0.0, 0.0]
    assert points.times(curve, 1000, 7000) == [1000, 1000, 1000]


def test_every_run_has_an_alpha_to_group_by():
    plain = planned()
    trial = plain.trial.model_copy(update={"architecture": "pre_ln", "options": {}})
    without = PlannedTrial(trial, Cell("pre_ln", 16), {"seed": 0}, 12345)
    assert fields.identity(without)["alpha"] == "none"
