"""`lr: {from: SWEEP, ...}`: what a stored sweep gives each cell, and every way in which it gives nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.measured_rates import StoredRates
from analysis.report import build
from keel_lab.errors import UsageError
from keel_lab.plan.chosen_lr import RateError
from keel_lab.plan.planned import Cell
from keel_lab.settings import GridSchedule, TrainSettings
from keel_lab.spec.lr_choice import LrChoice

GRID = GridSchedule(lr=1e-3, steps=600, warmup_steps=60)


def grid(lab, by_lr, name="g", architecture="keel", steps=600):
    """Losses by LR, one seed each; None: it diverged, a word: it has no result."""
    for lr, losses in by_lr.items():
        for seed, loss in enumerate(losses):
            schedule = GRID.model_copy(update={"lr": lr, "steps": steps})
            planned = lab.plan(name, architecture, 16, seed, schedule=schedule, axes=(("lr", lr),))
            if loss is None:
                lab.finish(planned, lab.diverged(planned, 60))
            elif not isinstance(loss, str):
                lab.finish(planned, lab.healthy(planned), metrics={"val_loss": loss})
    lab.save(name)


def rate(lab, sweep, pick, architecture="keel", blocks=16, **changes):
    trial = lab.plan("asking", architecture, blocks, 7, schedule=GRID).trial.model_copy(update=changes)
    return StoredRates(lambda: lab.root).rate(LrChoice(sweep, pick), Cell(architecture, blocks), trial)


def test_best_is_the_lr_of_the_lowest_mean_loss(lab):
    grid(lab, {1e-3: [3.0, 3.0], 3e-3: [2.0, 2.2], 1e-2: [1.9, 2.4]})
    assert rate(lab, "g", "best") == (3e-3, "of 3 tried")


def test_best_on_the_edge_says_so_and_survivors_do_not_count(lab):
    grid(lab, {1e-3: [3.0, 3.0], 3e-3: [0.1, None]})
    assert rate(lab, "g", "best") == (1e-3, "the smallest of 2 tried: extend the grid of g")


def test_a_share_of_the_median_max_lr_with_three_digits(lab):
    lab.seeds("r", "keel", 16, [102, 202, 212])  # 1e-3, 1e-2, 1.26e-2
    lab.seeds("r", "keel", 32, [102, 102, 102])
    lab.save("r")
    lr, remark = rate(lab, "r", "0.5*max_lr")
    assert lr == 5e-3
    assert remark.startswith("Max LR 1.00e-2 [")
    assert rate(lab, "r", "max_lr")[0] == 1e-2
    assert rate(lab, "r", "0.3333*max_lr")[0] == 3.33e-3
    assert rate(lab, "r", "0.5*max_lr", blocks=32)[0] == 5e-4


def test_a_difference_in_training_is_said(lab):
    grid(lab, {1e-3: [3.0], 3e-3: [2.0], 1e-2: [2.5]})
    _, remark = rate(lab, "g", "best", train=TrainSettings(batch_size=16))
    assert remark == "of 3 tried; batch_size 8 there, 16 here"


@pytest.mark.parametrize(
    ("onsets", "said"),
    [
        (
            [None, None, None],
            "found Max LR > 0.1 (censored); nothing diverged: raise ramp.peak_lr of r and run it again",
        ),
        (["stagnant"] * 3, "found Max LR not learned at this slope; lengthen the ramp of r"),
        ([102, "not_run", "failed"], "found 2 of 3 trials of r unfinished; keel-lab resume r runs them"),
    ],
)
def test_what_is_not_known_is_refused_with_the_remedy(lab, onsets, said):
    lab.seeds("r", "keel", 16, onsets)
    lab.save("r")
    with pytest.raises(RateError) as error:
        rate(lab, "r", "0.5*max_lr")
    assert said in str(error.value)


def test_other_refusals(lab):
    lab.seeds("r", "keel", 16, [102])
    lab.save("r")
    grid(lab, {1e-3: [3.0], 3e-3: ["not_run"]}, "half", steps=500)  # steps of their own: sweeps share equal trials
    grid(lab, {1e-3: [None], 3e-3: [None]}, "lost", steps=400)
    grid(lab, {1e-3: [3.0]}, "two")
    grid(lab, {1e-3: [3.0]}, "two", steps=300)
    for sweep, pick, changes, said in [
        ("r", "best", {}, "found no grid in r; pick: best needs one; pick: 0.5*max_lr goes with a ramp"),
        (
            "half",
            "max_lr",
            {},
            "found no ramp in half; pick: max_lr needs one; pick: best goes with a grid",
        ),
        ("r", "max_lr", {"architecture": "pre_ln"}, "found no cell in r; it has keel 16 blocks"),
        ("r", "max_lr", {"blocks": 32}, "found no cell in r; it has keel 16 blocks"),
        (
            "r",
            "max_lr",
            {"options": {"alpha": 2.0}},
            "found no cell in r; r has that architecture and depth with other options",
        ),
        ("half", "best", {}, "found 1 of 2 trials of half unfinished; keel-lab resume half runs them"),
        ("lost", "best", {}, "found no LR in lost at which no seed diverged"),
        ("two", "best", {}, "found 2 such cells in two, which differ in train or schedule"),
    ]:
        with pytest.raises(RateError) as error:
            rate(lab, sweep, pick, **changes)
        assert said in str(error.value)
    with pytest.raises(UsageError, match="halv"):
        rate(lab, "halv", "best")


def test_lrs_that_were_skipped_above_a_divergence_are_not_waited_for(lab):
    grid(lab, {1e-3: [3.0], 3e-3: [2.0], 1e-2: [None], 3e-2: ["not_run"]}, "skips", steps=450)
    stored = lab.sweeps.load("skips")
    lab.sweeps.save(replace(stored, spec={"budget": {"skip_above_divergence": True}}))
    assert rate(lab, "skips", "best") == (3e-3, "of 3 tried")
    assert "1 skipped, a lower LR diverged" in build(["skips"], lab.root)
