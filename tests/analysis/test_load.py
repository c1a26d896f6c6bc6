from __future__ import annotations

import math

import pandas as pd
import pytest

import analysis
from analysis.load import COLUMNS
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Mode, Status, Verdict
from keel_lab.errors import UsageError
from keel_lab.settings import GridSchedule


def test_a_row_a_trial_whatever_became_of_it(lab):
    lab.seeds("t", "keel", 16, [202, None, "failed", "not_run"], options={"alpha": 32.0}, axes=(("alpha", "L"),))
    lab.save("t")
    frame = analysis.load("t", lab.root)
    assert list(frame.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert list(frame.columns[len(COLUMNS) :]) == ["label.alpha", "label.seed", "option.alpha"]
    assert list(frame.state) == ["diverged", "completed", "failed", "not_run"]
    assert list(frame.verdict[:2]) == ["diverged", "healthy"]
    assert frame.verdict[2:].isna().all()
    assert frame.failure[2] == "oom"
    assert frame.max_lr[0] == pytest.approx(1e-2)
    assert frame.max_lr[1] == 0.1
    assert frame.max_lr[2:].isna().all()
    assert list(frame.max_lr_kind[:2]) == ["measured", "censored"]
    assert frame["mode"][0] == "collapse"
    assert frame.onset_step[0] == 202
    assert frame.last_good_step[0] == 201
    assert frame.steps[0] == 3
    assert frame.tokens[0] == 3 * 8 * 32
    assert frame.seconds_per_step[0] == 0.25
    assert frame.seconds[0] == 6.5
    assert list(frame["label.alpha"]) == ["L"] * 4
    assert list(frame["option.alpha"]) == [32.0] * 4
    assert list(frame.init_seed) == [0, 1, 2, 3]
    assert list(frame.slope.round(9)) == [0.01] * 4
    assert set(frame.parameters) == {16_000}


def test_dtypes_hold_even_for_a_sweep_without_results(lab):
    lab.seeds("t", "keel", 16, ["not_run"])
    lab.save("t")
    frame = analysis.load(["t"], lab.root)
    assert {name: str(frame[name].dtype) for name in COLUMNS} == {
        name: column.dtype for name, column in COLUMNS.items()
    }


def test_grid_trials_have_metrics_and_no_max_lr(lab):
    planned = lab.plan("g", "keel", schedule=GridSchedule(lr=3e-3))
    lab.finish(planned, Verdict(Status.HEALTHY, censored=True), metrics={"val_loss": 2.25, "val_accuracy": 0.5})
    lab.save("g")
    frame = analysis.load("g", lab.root)
    assert frame.val_loss[0] == 2.25
    assert frame["metric.val_accuracy"][0] == 0.5
    assert frame.peak_lr[0] == 3e-3
    assert math.isnan(frame.max_lr[0])
    assert pd.isna(frame.max_lr_kind[0])


def test_the_store_of_the_environment_is_the_default(lab, monkeypatch):
    lab.seeds("t", "keel", 16, [202])
    lab.save("t")
    monkeypatch.setenv("KEEL_LAB_STORAGE", lab.root.uri)
    assert len(analysis.load("t")) == 1


def test_a_trial_of_two_sweeps_has_a_row_in_each(lab):
    lab.seeds("t", "keel", 16, [202])
    lab.planned["u"] = lab.planned["t"]
    lab.save("t")
    lab.save("u")
    assert list(analysis.load(["t", "u", "t"], lab.root).sweep) == ["t", "u"]


def test_unknown_sweeps_are_named_with_the_nearest(lab):
    lab.seeds("table1", "keel", 16, [202])
    lab.save("table1")
    with pytest.raises(UsageError, match="table1"):
        analysis.load("tabel1", lab.root)


def test_a_stored_judgement_wins(lab):
    planned = lab.plan("t", "keel")
    lab.finish(planned, lab.diverged(planned, 202))
    lab.save("t")
    lab.sweeps.put_judgements("t", lab.thresholds, {planned.trial.id: lab.diverged(planned, 102, Mode.IRRECOVERABLE)})
    frame = analysis.load("t", lab.root)
    assert frame["mode"][0] == "irrecoverable"
    assert frame.onset_step[0] == 102


def test_a_result_of_the_same_thresholds_is_taken_without_reading_its_curve(lab, monkeypatch):
    lab.seeds("t", "keel", 16, [202, None])
    lab.save("t")
    monkeypatch.setattr("keel_lab.store.trials.Trials.curve", lambda *_: pytest.fail("a curve was read"))
    assert list(analysis.load("t", lab.root).onset_step[:1]) == [202]


@pytest.mark.parametrize("reason", ["thresholds", "detector"])
def test_a_result_judged_otherwise_is_judged_again_from_its_curve(lab, curve_like, reason):
    planned = lab.plan("t", "keel")
    curve = curve_like(planned.trial, 301, onset=150)
    stale = Verdict(
        Status.HEALTHY, None, None, 301, 0.1, True, True, detector="old-0" if reason == "detector" else DETECTOR
    )
    lab.finish(
        planned, stale, curve=curve, thresholds=Thresholds(alarm_sigma=999.0) if reason == "thresholds" else None
    )
    lab.save("t")
    frame = analysis.load("t", lab.root)
    assert frame.verdict[0] == "diverged"
    assert frame["mode"][0] == "collapse"
    assert frame.detector[0] == DETECTOR
    assert frame.onset_step[0] == pytest.approx(150, abs=10)


def test_a_curve_that_ends_too_early_for_new_thresholds_is_undecided(lab, curve_like):
    planned = lab.plan("t", "keel")
    lab.finish(planned, lab.diverged(planned, 150), curve=curve_like(planned.trial, 280, onset=150))
    lab.save("t", Thresholds(confirm_samples=500))
    frame = analysis.load("t", lab.root)
    assert frame.verdict[0] == "undecided"
    assert frame.max_lr_kind[0] == "undecided"
    assert math.isnan(frame.max_lr[0])
