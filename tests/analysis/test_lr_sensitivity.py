"""LR sensitivity: the worked example by hand, seeds, divergences, and what has none."""

from __future__ import annotations

import math

import pytest

from analysis.lr_sensitivity import Outcome, sensitivity
from analysis.report import build
from keel_lab.settings import GridSchedule
from keel_lab.trial import DataRef

CHANCE = math.log(256)
A, B = (0, 0), (1, 1)


def test_it_is_the_mean_loss_above_the_best_of_the_lrs():
    outcomes = [Outcome(1e-3, {A: 3.0}), Outcome(3e-3, {A: 2.5}), Outcome(1e-2, {A: 4.0})]
    found = sensitivity(outcomes, CHANCE)
    assert found is not None
    assert found.value == pytest.approx((0.5 + 0.0 + 1.5) / 3)
    assert (found.low, found.n) == (None, 1)


def test_a_divergence_costs_a_uniform_guess_and_seeds_have_their_own_best():
    outcomes = [
        Outcome(1e-3, {A: 2.0, B: 3.0}),
        Outcome(3e-3, {A: 2.5, B: 2.0}),
        Outcome(1e-2, {A: math.inf, B: 9.0}),
    ]
    found = sensitivity(outcomes, CHANCE)
    first = (0.0 + 0.5 + CHANCE - 2.0) / 3
    second = (1.0 + 0.0 + CHANCE - 2.0) / 3
    assert found is not None
    assert found.value == pytest.approx((first + second) / 2)
    assert found.low < found.value < found.high


def test_it_needs_three_lrs_and_seeds_that_have_all_of_them():
    outcomes = [Outcome(1e-3, {A: 2.0}), Outcome(3e-3, {A: 2.5}), Outcome(1e-2, {B: 2.0})]
    assert sensitivity(outcomes[:2], CHANCE) is None
    assert sensitivity(outcomes, CHANCE) is None
    assert sensitivity([*outcomes[:2], Outcome(1e-2, {A: math.nan})], CHANCE) is None


def test_the_report_of_a_grid_says_it(lab):
    data = DataRef(fingerprint="f" * 64, tokenizer="bytes", vocab=256)
    for architecture, losses in {"pre_ln": [3.0, 2.5, 4.0], "keel": [2.4, 2.4, None]}.items():
        for lr, loss in zip((1e-3, 3e-3, 1e-2), losses, strict=True):
            schedule = GridSchedule(lr=lr, steps=600, warmup_steps=60)
            planned = lab.plan("g", architecture, 4, axes=(("lr", lr),), schedule=schedule, data=data)
            verdict = lab.healthy(planned) if loss else lab.diverged(planned, 60)
            lab.finish(planned, verdict, metrics={"val_loss": loss or 2.0})
    lab.save("g")
    text = " ".join(build("g", lab.root).split())
    assert f"pre_ln 0.6667; keel {(CHANCE - 2.4) / 3:.4f}." in text
