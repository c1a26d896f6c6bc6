"""The study alone: whatever the sampler, what it asks next follows from the stored points and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from keel_lab.errors import UsageError
from keel_lab.own_trainer import NO_CORPUS, catalogue_for
from keel_lab.search.beginning import beginning
from keel_lab.search.cells import Points
from keel_lab.search.study import Study
from keel_lab.search.telling import Told
from keel_lab.spec import parse
from keel_lab.store.points import Point, State
from tests.bowl_trainer import breaks_at, final_loss
from trainers.catalogue import CATALOGUE as SHIPPED

TEXT = """\
schema: 1
name: bowl
protocol: search
trainer: tests.bowl_trainer
grid: {{architecture: [{architectures}], depth: {{blocks: [4]}}}}
search:
  space: {{lr: {lr}, {more}}}
  objectives: {objectives}
  points: {points}
  sampler: {sampler}
  {rest}
schedule: {{shape: constant, steps: 60, {warmup}}}
"""
RANGES = "alpha: {power_of_L: [0, 2]}, weight_decay: {log_uniform: [1e-4, 1]}, batch_size: {uniform: [2, 8], step: 2}"
CHOICES = "alpha: {choice: [1, L, L^2]}, clip_norm: {choice: [1.0, 'off']}, betas: {choice: [[0.9, 0.95], [0.9, 0.99]]}"


WORDS = {
    "objectives": "val_loss",
    "sampler": "auto",
    "lr": "{log_uniform: [1e-3, 1e-1]}",
    "more": RANGES,
    "architectures": "bowl",
    "points": 24,
    "warmup": "warmup_steps: 5",
    "rest": "",
}


def points_of(objectives="val_loss", sampler="auto", more=RANGES, text=TEXT, **words) -> Points:
    given = {"objectives": objectives, "sampler": sampler, "more": more, **words}
    spec = parse(text.format(**{**WORDS, **given}), "s.yaml", Path(), [], SHIPPED)
    return Points(spec, catalogue_for(spec.trainer, SHIPPED), NO_CORPUS)


def told(points: Points, point: Point) -> Told:
    """What the bowl would say, without running it."""
    scheduled = [one.trial for one in point.trials if one.trial.schedule.kind == "grid"]
    lost = any(trial.schedule.lr > breaks_at(trial) for trial in scheduled)
    losses = [final_loss(trial) for trial in scheduled]
    values = tuple(
        breaks_at(point.trials[0].trial) if one.name == "max_lr" else sum(losses) / len(losses)
        for one in points.search.objectives
    )
    if len(values) > 1:
        return Told(State.COMPLETE, values, {100: values[0]}, 1.0 if lost else 0.0)
    if lost:
        return Told(State.PRUNED, None, {100: 3.0, 200: 2.5}, None, {"diverged": 1})
    return Told(State.COMPLETE, values, {100: 3.0, 200: 2.0, 400: values[0]})


def stored(point: Point) -> Point:
    return Point.from_json(json.loads(json.dumps(point.to_json())))


def rebuilt(points: Points, study: Study) -> Study:
    return Study(points, points.cells[0], [stored(point) for point in study.asked])


SAMPLERS = [
    ("val_loss", "auto", RANGES),
    ("val_loss", "{name: tpe, n_startup_trials: 4, multivariate: true}", RANGES),
    ("val_loss", "{name: tpe, n_startup_trials: 4}", CHOICES),
    ("val_loss", "{name: gp, n_startup_trials: 4}", "alpha: {power_of_L: [0, 2]}"),
    ("val_loss", "{name: cma-es, popsize: 4}", "alpha: {power_of_L: [0, 2]}"),
    ("val_loss", "random", CHOICES),
    ("[val_loss, max_lr]", "{name: nsga2, population_size: 4}", RANGES),
    ("[val_loss, max_lr]", "{name: tpe, n_startup_trials: 4}", CHOICES),
]


@pytest.mark.parametrize(("objectives", "sampler", "more"), SAMPLERS)
def test_a_rebuilt_study_asks_what_the_first_one_asks(objectives, sampler, more) -> None:
    """Three points are always out, as in a parallel run; the study is rebuilt, killed as it were, before every ask."""
    points = points_of(objectives, sampler, more)
    whole = Study(points, points.cells[0], [])
    killed = Study(points, points.cells[0], [])
    count = 14 if "gp" in sampler else 24
    for number in range(count):
        killed = rebuilt(points, killed)
        one, other = whole.ask(), killed.ask()
        assert one.drawn == other.drawn, number
        if number >= 3:
            early = whole.asked[number - 3]
            whole.tell(number - 3, told(points, early))
            killed.tell(number - 3, told(points, early))
    assert len({tuple(map(str, point.drawn.values())) for point in whole.asked}) > count // 2
    assert [point.told for point in whole.asked] == [point.told for point in killed.asked]


@pytest.mark.parametrize(("sampler", "count"), [("auto", 48), ("{name: gp, n_startup_trials: 8}", 18)])
def test_it_learns(sampler, count) -> None:
    points = points_of(sampler=sampler, more="alpha: {power_of_L: [0, 2]}", points=48)
    study = Study(points, points.cells[0], [])
    for _ in range(count):
        point = study.ask()
        study.tell(point.number, told(points, point))
    losses = [point.told[0] for point in study.asked if point.told]
    late = losses[len(losses) * 2 // 3 :]
    assert min(losses) < 1.05
    assert sum(late) / len(late) < sum(losses[:8]) / 8


@pytest.mark.parametrize("lr", ["{choice: [1e-3, 1e-2, 1e-1]}", "{log: [1e-3, 1e-1, 3]}", "[1e-3, 1e-2, 1e-1]"])
def test_a_grid_asks_each_combination_once(lr) -> None:
    points = points_of(sampler="grid", lr=lr, more="alpha: {choice: [1, L, L^2]}")
    study = Study(points, points.cells[0], [])
    while not study.exhausted:
        point = study.ask()
        study.tell(point.number, told(points, point))
        study = rebuilt(points, study)
    asked = [(point.trials[0].trial.schedule.lr, point.trials[0].trial.options["alpha"]) for point in study.asked]
    assert sorted(asked) == [(lr, alpha) for lr in (1e-3, 1e-2, 1e-1) for alpha in (1.0, 8.0, 64.0)]


def test_values_are_rounded_typed_and_in_the_words_of_the_file() -> None:
    points = points_of(more=RANGES + ", warmup: {uniform: [1%, 20%]}", warmup="final_lr: 0")
    study = Study(points, points.cells[0], [])
    for _ in range(8):
        point = study.ask()
        trial = point.trials[0].trial
        assert trial.train.batch_size in (2, 4, 6, 8)
        assert trial.schedule.lr == float(f"{point.drawn['lr']:.4g}")
        assert trial.options["alpha"] == pytest.approx(8 ** point.drawn["alpha"], rel=1e-2)
        assert point.values["options.alpha"].startswith("L^")
        assert point.values["schedule.warmup"].endswith("%")
        assert 0 <= trial.schedule.warmup_steps <= 12
        assert 1e-4 <= trial.train.weight_decay <= 1


def test_an_architecture_may_have_a_range_of_its_own() -> None:
    own = "per_architecture: {plain: {lr: {log_uniform: [1e-5, 1e-4]}}, bowl: {alpha: {uniform: [L/2, 2L]}}}"
    points = points_of(more=own, architectures="bowl, plain", rest="per: all")
    study = Study(points, points.cells[0], [])
    seen = set()
    for _ in range(16):
        point = study.ask()
        trial = point.trials[0].trial
        seen.add(trial.architecture)
        if trial.architecture == "plain":
            assert set(point.drawn) == {"architecture", "plain.lr"}
            assert trial.schedule.lr <= 1e-4
        else:
            assert set(point.drawn) == {"architecture", "lr", "bowl.alpha"}
            assert 4 <= trial.options["alpha"] <= 16
        study.tell(point.number, told(points, point))
    assert seen == {"bowl", "plain"}
    assert rebuilt(points, study).ask().drawn == study.ask().drawn


def test_depth_may_be_searched_beside_alpha() -> None:
    text = TEXT.replace("blocks: [4]", "blocks: [2, 8]")
    begin = "per: all\n  warm_start: {points: [{blocks: 8, alpha: L}]}"
    points = points_of(text=text, rest=begin)
    study = Study(points, points.cells[0], [], beginning(points, points.cells[0]))
    first = study.ask().trials[0].trial
    assert (first.blocks, first.options["alpha"]) == (8, 16.0)
    for _ in range(6):
        point = study.ask()
        trial = point.trials[0].trial
        assert trial.options["alpha"] == pytest.approx(trial.sublayers ** point.drawn["alpha"], rel=1e-2)
    assert {point.trials[0].trial.blocks for point in study.asked} == {2, 8}
    with pytest.raises(UsageError, match="give blocks beside it"):
        beginning(points_of(text=text, rest=begin.replace("blocks: 8, ", "")), points.cells[0])


def test_seeds_are_repeats_of_a_point() -> None:
    text = TEXT.replace("depth: {{blocks: [4]}}", "depth: {{blocks: [4]}}, seed: [3, 5]")
    points = points_of("[val_loss, max_lr]", text=text)
    point = Study(points, points.cells[0], []).ask()
    kinds = [(one.trial.schedule.kind, one.trial.init_seed, one.trial.data_seed) for one in point.trials]
    assert kinds == [("grid", 3, 3), ("ramp", 3, 3), ("grid", 5, 5), ("ramp", 5, 5)]
    assert points.fresh_seeds == (6, 7, 8)


def test_the_width_follows_from_the_depth_at_fixed_parameters() -> None:
    text = TEXT.replace("blocks: [4]", "blocks: [2, 8, 32]")
    rest = "parameters: 100000\n  per: all"
    points = points_of(more="weight_decay: {uniform: [0, 1]}", text=text, architectures="plain", rest=rest)
    widths = {}
    for planned in points.samples():
        widths[planned.trial.blocks] = planned.trial.model.width
        assert planned.parameters == pytest.approx(100_000, rel=0.1)
        assert planned.trial.model.ffn_width == 3 * planned.trial.model.width
        assert planned.trial.model.width % 8 == 0
    assert widths == {blocks: 8 * round(math.sqrt(100_000 / blocks) / 8) for blocks in (2, 8, 32)}


FILE = """\
schema: 1
name: bowl
protocol: search
trainer: tests.bowl_trainer
grid: {architecture: [bowl, plain], depth: {blocks: [4, 8]}, width: [32, 64], seed: [0, 1]}
search:
  space:
    lr: {log_uniform: [1e-3, 1e-1]}
    betas: {choice: [[0.9, 0.95], [0.9, 0.99]]}
    warmup: {uniform: [1%, 20%], step: 1}
    batch_size: {log_uniform: [2, 64]}
    per_architecture: {bowl: {alpha: {uniform: [L/2, 2L]}}}
  objectives: {val_loss: minimize, tokens_to_loss: {target: 1.5}, max_lr: maximize}
  sampler: {name: nsga2, population_size: 8}
  remeasure: {best: 1}
  warm_start: {points: [{lr: 1e-2, width: 32}], from: other, best: 2}
schedule: {shape: constant, steps: 60}
"""


def test_a_resolved_search_reads_back_as_itself() -> None:
    from keel_lab.spec.sweep import SweepSpec
    from keel_lab.spec.writing import to_yaml

    spec = parse(FILE, "s.yaml", Path(), [], SHIPPED)
    again = parse(to_yaml(spec.document), "s.yaml", Path(), [], SHIPPED)
    assert again.document == spec.document
    assert again.search == spec.search
    stored = json.loads(json.dumps(spec.to_json()))
    assert json.loads(json.dumps(SweepSpec.from_json(stored).to_json())) == stored
    points = Points(spec, catalogue_for(spec.trainer, SHIPPED), NO_CORPUS)
    assert len(points.cells) == 8
    assert str(points.cells[0].name) == "bowl 4 blocks width=32"


def test_lrs_of_another_sweep_are_no_axis_of_a_search() -> None:
    from keel_lab.errors import SpecError

    with pytest.raises(SpecError, match=r"grid.lr: found .*; a search has LRs of its own"):
        parse(FILE.replace("width: [32, 64]", "lr: {from: other, pick: best}"), "s.yaml", Path(), [], SHIPPED)
