"""Which running points are cut, and that one which starts behind and overtakes is not: by rule, and on real curves."""

from __future__ import annotations

import json

import pytest

from benchmarks.pruning import STEPS, replay, rungs
from keel_lab.curve import Step
from keel_lab.search.pruning import slow_starter
from keel_lab.search.rungs import rung_loss, rung_losses, rung_steps
from keel_lab.store.points import State
from tests.search_bench import PRUNED, Bench
from tests.toy_sweep import toy_trial


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", "off")
    return Bench(tmp_path)


def test_rungs_are_means_just_before_even_marks_with_the_batch_s_difficulty_taken_out() -> None:
    assert rung_steps(320, 8) == (40, 80, 120, 160, 200, 240, 280, 320)
    assert rung_steps(3, 8) == (1, 2, 3)
    trial = toy_trial(steps=100)
    curve = [Step(step, 3.0 - 0.01 * step + step % 2, 1e-3, 3.0 + step % 2) for step in range(1, 101)]
    losses = rung_losses(curve, trial, 4, 3.0)
    assert list(losses) == [step * trial.tokens_per_step for step in (25, 50, 75, 100)]
    assert losses[25 * trial.tokens_per_step] == pytest.approx(3.0 - 0.01 * 23)
    assert list(rung_losses(curve, trial, 4, 3.0, end=60)) == [step * trial.tokens_per_step for step in (25, 50)]
    assert rung_loss([Step(1, float("nan"), 1e-3)], 100, None) != 0
    assert not rung_losses([Step(step, float("inf"), 1e-3) for step in range(1, 101)], trial, 4, None)


@pytest.mark.parametrize(
    ("rungs", "spared"),
    [
        ({10: 3.0}, True),  # no pace is known yet
        ({10: 3.0, 20: 2.8}, True),  # 0.2 a rung, eight to go: 1.2
        ({10: 3.0, 20: 2.95}, False),  # 2.55 at the end
        ({80: 2.2, 90: 2.1}, True),  # 2.0 at the end
        ({80: 2.2, 90: 2.15}, False),
        ({10: 2.0, 20: 2.1}, False),
    ],
)
def test_a_slow_starter_is_one_whose_pace_would_take_it_below_the_best_of_now(rungs, spared) -> None:
    others = [{10: 2.5, 20: 2.2, 80: 2.0, 90: 2.0}, {10: 2.9, 20: 2.7}]
    assert slow_starter(rungs, others, 100) is spared


def test_a_search_cuts_what_is_behind_and_stores_how_far_it_came(bench) -> None:
    summary = bench.run("search.pruner.spare_slow_starters=false", text=PRUNED)
    points = bench.points()
    cut = [point for point in points if point.cut]
    assert summary.exit_code == 0
    assert summary.skipped == len(cut) > 0
    for point in cut:
        assert point.state is State.PRUNED
        assert point.facts == {"why": "cut by the pruner"}
        assert 0 < len(point.rungs) < 8
    again = bench.resume()
    assert (again.exit_code, again.left, again.skipped) == (0, 0, len(cut))
    assert [point.told for point in bench.points()] == [point.told for point in points]


def test_a_late_starter_is_cut_only_if_it_is_not_spared(bench) -> None:
    begin = [{"architecture": "plain", "lr": lr} for lr in (0.01, 0.008, 0.012, 0.011)]
    begin.append({"architecture": "late", "lr": 0.01})
    words = [f"search.warm_start={json.dumps({'points': begin})}", "search.points=5", "search.remeasure.best=0"]
    bench.run(*words, "name=cut", "search.pruner.spare_slow_starters=false", text=PRUNED)
    bench.run(*words, "name=spared", text=PRUNED)  # goes on from where the other one was cut
    spared, cut = bench.points("spared")[4], bench.points("cut")[4]
    assert spared.state is State.COMPLETE
    assert spared.told < min(point.told for point in bench.points("spared")[:4])
    assert cut.state is State.PRUNED


@pytest.fixture(scope="module")
def real() -> dict[str, dict[int, float]]:
    """The 18 real runs of docs/results/table2."""
    return rungs()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_keel_starts_behind_pre_ln_and_overtakes_on_real_curves(real, seed) -> None:
    """At its best LR Keel is behind at the first rung and ends first; the plain median pruner cuts it there."""
    keel = f"keel-b16-lr=0.003-s{seed}"
    others = [f"{name}-s{seed}" for name in ("pre_ln-b16-lr=0.003", "pre_ln-b16-lr=0.01", "keel-b16-lr=0.01")]
    assert all(real[keel][40] > real[name][40] for name in others)
    assert all(real[keel][STEPS] < real[name][STEPS] for name in others)
    assert replay(real, [*others, keel], spare=False)[keel] == 40
    assert replay(real, [*others, keel], spare=True)[keel] == STEPS


def test_sparing_slow_starters_keeps_the_best_and_still_saves_steps_on_real_curves(real) -> None:
    whole = len(real) * STEPS
    best = min(real, key=lambda name: real[name][STEPS])
    order = sorted(real, key=lambda name: (name[-1], name.startswith("keel"), name))  # Pre-LN first, a seed at a time
    spared = replay(real, order, spare=True)
    assert spared[best] == STEPS
    assert sum(spared.values()) < 0.95 * whole
