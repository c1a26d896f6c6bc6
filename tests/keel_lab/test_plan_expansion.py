from __future__ import annotations

from collections.abc import Callable

import pytest

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.plan import Cell, Plan, PlannedTrial, expand
from keel_lab.settings import GridSchedule
from keel_lab.spec import SweepSpec

Reader = Callable[..., SweepSpec]
Planner = Callable[..., Plan]


@pytest.fixture
def plan(read: Reader, catalogue: Catalogue, facts: CorpusFacts) -> Planner:
    def planner(text: str, *overrides: str) -> Plan:
        return expand(read(text, *overrides), catalogue, facts)

    return planner


def ids(plan: Plan) -> set[str]:
    return {planned.trial.id for planned in plan.trials}


def test_case_6_every_combination_once_and_typed(plan: Planner, grid_text: str) -> None:
    """CASES 6: 5 x 4 x 4 x 2 values, among them `1e-4` and `3e6`."""
    got = plan(
        grid_text,
        "grid.architecture=[keel]",
        "grid.lr=[1e-4, 3e-4, 1e-3, 3e-3, 1e-2]",
        "grid.weight_decay=[0, 1e-4, 0.01, .5]",
        "grid.rope_theta=[1e3, 1e4, 3e6, 1.e7]",
        "grid.seed=[0, 1]",
        "schedule.final_lr=0",
    )
    assert len(got.trials) == len(ids(got)) == 160
    assert got.collapsed == 0
    settings = {(p.trial.schedule.lr, p.trial.train.weight_decay, p.trial.model.rope_theta) for p in got.trials}
    assert len(settings) == 80
    assert {type(value) for row in settings for value in row} == {float}
    assert {rate for rate, _, _ in settings} == {1e-4, 3e-4, 1e-3, 3e-3, 1e-2}
    assert {theta for _, _, theta in settings} == {1e3, 1e4, 3e6, 1e7}
    assert len({planned.name for planned in got.trials}) == 160


@pytest.mark.parametrize("warmup", ["warmup: 10%", "warmup: 10.0%", "warmup_steps: 60", "warmup_steps: 0x3C"])
def test_case_8_both_spellings_of_a_warmup_plan_the_same(plan: Planner, grid_text: str, warmup: str) -> None:
    got = plan(grid_text.replace("warmup: 10%", warmup))
    schedules = {planned.trial.schedule for planned in got.trials if isinstance(planned.trial.schedule, GridSchedule)}
    assert {schedule.warmup_steps for schedule in schedules} == {60}
    assert ids(got) == ids(plan(grid_text))


def test_a_percentage_follows_the_steps(plan: Planner, grid_text: str) -> None:
    got = plan(grid_text, "grid.steps=[100, 200]")
    pairs = {(p.trial.schedule.steps, p.trial.schedule.warmup_steps) for p in got.trials}
    assert pairs == {(100, 10), (200, 20)}


def test_case_10_an_axis_that_an_architecture_ignores_collapses(plan: Planner, good: str) -> None:
    got = plan(good, "grid.architecture=[pre_ln,keel]", "grid.depth.blocks=[4]", "grid.alpha=[1,L,L^2]")
    cells = [planned.cell for planned in got.trials if planned.trial.init_seed == 0]
    assert cells == [
        Cell("pre_ln", 4),
        Cell("keel", 4, (("alpha", 1.0),)),
        Cell("keel", 4, (("alpha", "L"),)),
        Cell("keel", 4, (("alpha", "L^2"),)),
    ]
    assert (len(got.trials), got.collapsed) == (12, 6)


def test_rules_of_equal_value_collapse(plan: Planner, good: str) -> None:
    got = plan(good, "grid.architecture=[keel]", "grid.depth.blocks=[4, 8]", "grid.alpha=[8, L]", "grid.seed=[0]")
    assert [planned.name for planned in got.trials] == [
        "keel-b4-alpha=8-s0",
        "keel-b8-alpha=8-s0",
        "keel-b8-alpha=L-s0",
    ]
    assert got.collapsed == 1


def test_the_first_seed_of_every_cell_comes_first_cells_in_the_files_order(plan: Planner, good: str) -> None:
    names = [planned.name for planned in plan(good, "grid.seed=[7,3]").trials]
    first = ["post_ln-b4-s7", "post_ln-b8-s7", "pre_ln-b4-s7", "pre_ln-b8-s7", "keel-b4-s7", "keel-b8-s7"]
    assert names == first + [name.replace("s7", "s3") for name in first]


def test_the_order_of_axes_is_the_files(plan: Planner, good: str) -> None:
    swapped = good.replace("  architecture: [post_ln, pre_ln, keel]\n  depth: {blocks: [4, 8]}\n", "")
    swapped = swapped.replace("grid:\n", "grid:\n  depth: {blocks: [8, 4]}\n  architecture: [keel, pre_ln]\n")
    assert [planned.name for planned in plan(swapped, "grid.seed=[0]").trials] == [
        "keel-b8-s0",
        "pre_ln-b8-s0",
        "keel-b4-s0",
        "pre_ln-b4-s0",
    ]


def test_options_are_numbers_in_the_trial_and_words_in_the_labels(plan: Planner, good: str) -> None:
    keel = {planned.trial.blocks: planned for planned in plan(good).trials if planned.cell.architecture == "keel"}
    assert {blocks: planned.trial.options["alpha"] for blocks, planned in keel.items()} == {4: 8.0, 8: 16.0}
    assert keel[8].trial.options == {"alpha": 16.0, "final_norm": False, "first": "bare"}
    assert keel[8].labels == {"alpha": "L", "final_norm": False, "first": "bare", "seed": 2}
    assert keel[8].cell == Cell("keel", 8)


def test_a_list_under_per_architecture_is_an_axis_of_that_architecture_alone(plan: Planner, good: str) -> None:
    got = plan(good, "per_architecture.keel.alpha=[1,L]", "grid.depth.blocks=[4]", "grid.seed=[0]")
    assert [planned.name for planned in got.trials] == [
        "post_ln-b4-s0",
        "pre_ln-b4-s0",
        "keel-b4-alpha=1-s0",
        "keel-b4-alpha=L-s0",
    ]
    assert got.collapsed == 0


def test_what_one_architecture_says_beats_a_constant_of_the_grid(plan: Planner, good: str) -> None:
    both = good.replace("seed: [0, 1, 2]", "seed: 0\n  alpha: 2")
    keel = [planned for planned in plan(both).trials if planned.cell.architecture == "keel"]
    assert {planned.labels["alpha"] for planned in keel} == {"L"}


def test_a_seed_sets_both_and_seeds_apart_are_multiplied(plan: Planner, good: str) -> None:
    together = plan(good, "grid.architecture=keel", "grid.depth.blocks=4")
    assert [(p.trial.init_seed, p.trial.data_seed) for p in together.trials] == [(0, 0), (1, 1), (2, 2)]
    apart = plan(good.replace("seed: [0, 1, 2]", "init_seed: [0, 1]\n  data_seed: [0, 5]"), "grid.architecture=keel")
    names = [planned.name for planned in apart.trials if planned.cell.blocks == 4]
    assert names == ["keel-b4-s0", "keel-b4-i0-d5", "keel-b4-i1-d0", "keel-b4-i1-d5"]
    assert apart.trials[0].labels["init_seed"] == 0
    assert "seed" not in apart.trials[0].labels


def test_a_constant_is_no_axis_of_a_cell_but_a_label(plan: Planner, grid_text: str) -> None:
    got = plan(grid_text, "grid.lr=[1e-3]", "grid.width=64", "grid.seed=[0]")
    assert [planned.name for planned in got.trials] == ["pre_ln-b4-s0", "keel-b4-s0"]
    assert got.trials[0].labels == {"lr": 1e-3, "width": 64, "seed": 0}


def test_depth_in_sublayers_is_depth_in_blocks(plan: Planner, good: str) -> None:
    assert ids(plan(good, "grid.depth.sublayers=[8, 16]")) == ids(plan(good))


def test_ids_do_not_depend_on_names_resources_thresholds_or_spelling(plan: Planner, good: str) -> None:
    other = plan(
        good.replace("clip_norm: 1.0", "clip_norm: 1").replace("1e-4", "0.0001").replace("0.01", "1e-2"),
        "name=other",
        "question=none",
        "resources.memory=1GiB",
        "divergence.alarm_sigma=7",
        "budget.trials=3",
    )
    assert ids(other) == ids(plan(good))


def test_ids_depend_on_the_data(read: Reader, good: str, catalogue: Catalogue, facts: CorpusFacts) -> None:
    elsewhere = CorpusFacts("e" * 64, facts.tokens, facts.vocab, facts.tokenizer, facts.source)
    spec = read(good)
    assert not ids(expand(spec, catalogue, facts)) & ids(expand(spec, catalogue, elsewhere))
    data = expand(spec, catalogue, facts).trials[0].trial.data
    assert data is not None
    assert (data.fingerprint, data.tokenizer, data.vocab) == ("f" * 64, "bytes", 256)


def test_resources_reach_every_trial(plan: Planner, good: str) -> None:
    assert {planned.trial.resources.cpus for planned in plan(good, "resources.cpus=3").trials} == {3}


def test_parameters_are_the_catalogues(plan: Planner, good: str) -> None:
    got = {planned.cell: planned.parameters for planned in plan(good).trials}
    assert got[Cell("pre_ln", 4)] == 256 * 32 + 4 * 32**2
    assert got[Cell("keel", 8)] == 256 * 32 + 8 * 32**2 + 3


def test_planned_trials_survive_json(plan: Planner, good: str, grid_text: str) -> None:
    for planned in (*plan(good).trials, *plan(grid_text, "train.betas=[[0.9,0.95],[0.8,0.9]]").trials):
        again = PlannedTrial.from_json(planned.to_json())
        assert again == planned
        assert again.trial.id == planned.trial.id


def test_a_ramp_of_lists(plan: Planner, good: str) -> None:
    got = plan(good, "ramp.peak_lr=[0.1, 1]", "ramp.steps={linear: [100, 300, 3]}", "grid.seed=[0]")
    assert len(got.trials) == 3 * 2 * 2 * 3
    assert got.trials[0].name == "post_ln-b4-peak_lr=0.1-steps=100-s0"
