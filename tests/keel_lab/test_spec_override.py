from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keel_lab.errors import SpecError
from keel_lab.spec import SweepSpec

Reader = Callable[..., SweepSpec]


def values(spec: SweepSpec, key: str) -> tuple[Any, ...]:
    return next((axis.values for axis in spec.axes if axis.key == key), ())


def test_a_scalar_a_list_and_a_key_that_the_file_lacks(read: Reader, good: str) -> None:
    spec = read(good, "ramp.steps=300", "grid.architecture=[pre_ln,keel]", "divergence.alarm_sigma=50", "name=other")
    assert spec.constants["schedule"]["steps"] == 300
    assert values(spec, "architecture") == ("pre_ln", "keel")
    assert (spec.thresholds.alarm_sigma, spec.name) == (50.0, "other")


def test_values_follow_the_rules_of_the_file(read: Reader, good: str) -> None:
    spec = read(good, "train.clip_norm=off", "ramp.from_lr=1e-6", "budget.wall_time=90m", "question='a: b'")
    assert spec.constants["train"]["clip_norm"] == "off"
    assert spec.constants["schedule"]["from_lr"] == 1e-6
    assert (spec.budget.wall_time, spec.question) == (5400.0, "a: b")


def test_architectures_can_be_narrowed_where_per_architecture_names_others(read: Reader, good: str) -> None:
    assert values(read(good, "grid.architecture=[pre_ln]"), "architecture") == ("pre_ln",)


def test_a_zero_is_not_lost(read: Reader, good: str) -> None:
    assert values(read(good, "grid.seed=0"), "seed") == (0,)
    assert read(good, "train.weight_decay=0").constants["train"]["weight_decay"] == 0.0


@pytest.mark.parametrize("key", ["grid.width", "grid.model.width"])
def test_a_grid_axis_replaces_the_constant_of_its_section(read: Reader, good: str, key: str) -> None:
    spec = read(good, f"{key}=[32,64]")
    assert values(spec, "model.width") == (32, 64)
    assert "width" not in spec.constants["model"]


def test_a_section_key_replaces_the_axis_of_the_file(read: Reader, good: str) -> None:
    varied = good.replace("seed: [0, 1, 2]", "seed: [0]\n  width: [32, 64]")
    spec = read(varied, "model.width=64")
    assert values(spec, "model.width") == ()
    assert spec.constants["model"]["width"] == 64


def test_an_option_under_grid_replaces_what_per_architecture_says(read: Reader, good: str) -> None:
    spec = read(good, "grid.alpha=[1,L]")
    assert values(spec, "options.alpha") == (1.0, "L")
    assert spec.options == {"keel": {}}


def test_an_option_of_one_architecture(read: Reader, good: str) -> None:
    assert read(good, "per_architecture.keel.alpha=[1,L]").options == {"keel": {"alpha": (1.0, "L")}}


def test_sublayers_replace_blocks(read: Reader, good: str) -> None:
    assert values(read(good, "grid.depth.sublayers=[6]"), "blocks") == (3,)
    assert values(read(good, "grid.depth={sublayers: [6]}"), "blocks") == (3,)


def test_a_preset_replaces_the_numbers_that_it_stands_for(read: Reader, good: str) -> None:
    schedule = read(good, "ramp.preset=paper").constants["schedule"]
    assert schedule == {"shape": "linear", "from_lr": 0.0, "peak_lr": 0.05, "steps": 5000}
    assert read(good, "ramp.preset=paper", "ramp.steps=100").constants["schedule"] == {**schedule, "steps": 100}


def test_one_seed_key_replaces_the_two_apart(read: Reader, good: str) -> None:
    apart = good.replace("seed: [0, 1, 2]", "init_seed: [0, 1]\n  data_seed: [2, 3]")
    assert values(read(apart), "data_seed") == (2, 3)
    assert [axis.key for axis in read(apart, "grid.seed=[5]").axes] == ["architecture", "blocks", "seed"]


def test_corpus_and_text_replace_each_other(read: Reader, good: str) -> None:
    spec = read(good, "data.text=books/*.txt")
    assert spec.data == {"text": "books/*.txt", "tokenizer": "bytes"}
    assert read(good.replace("corpus: stdlib", "text: a"), "data.corpus=stdlib").data["corpus"] == "stdlib"


def test_warmup_and_its_steps_replace_each_other(read: Reader, grid_text: str) -> None:
    assert "warmup" not in read(grid_text, "schedule.warmup_steps=5").constants["schedule"]
    steps = grid_text.replace("warmup: 10%", "warmup_steps: 5")
    assert "warmup_steps" not in read(steps, "schedule.warmup=5%").constants["schedule"]


def test_a_null_takes_a_section_away(read: Reader, good: str) -> None:
    spec = read(good, "protocol=grid", "ramp=null", "siblings=null", "grid.lr=1e-3")
    assert (spec.protocol, values(spec, "schedule.lr")) == ("grid", (1e-3,))


def test_an_option_of_an_architecture_of_ones_own(read: Reader, good: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(good, "per_architecture.my.pack:Own.alpha=2")
    (problem,) = caught.value.problems
    assert problem.key == "per_architecture.my.pack:Own"


@pytest.mark.parametrize(
    ("override", "key", "says"),
    [
        ("steps", "steps", "an override is written key.path=value"),
        ("=3", "=3", "an override is written key.path=value"),
        ("ramp..steps=3", "ramp..steps=3", "an override is written key.path=value"),
        ("rmap.steps=3", "rmap", "did you mean ramp"),
        ("ramp.step=3", "ramp.step", "did you mean steps"),
        ("steps=3", "steps", "did you mean ramp.steps"),
        ("name.first=x", "name.first", "name has no keys inside it"),
        ("grid.seed=[0", "grid.seed", "no YAML"),
        ("ramp.steps=x", "ramp.steps", "found x (a string); must be an integer"),
        ("ramp.steps=", "ramp.steps", "found nothing; must be an integer"),
        ("grid.init_seed=[0]", "grid.init_seed", "give seed alone, or the two apart"),
    ],
)
def test_wrong_overrides_are_named_with_their_whole_text(
    read: Reader, good: str, override: str, key: str, says: str
) -> None:
    with pytest.raises(SpecError) as caught:
        read(good, override)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert problem.place in ("command line", f"command line: {override}")
    assert says in str(problem)


def test_one_key_twice_is_refused(read: Reader, good: str) -> None:
    with pytest.raises(SpecError, match="a second time"):
        read(good, "ramp.steps=3", "ramp.steps=4")


def test_the_file_and_the_command_line_are_reported_together(read: Reader, good: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(good.replace("heads: 4,", "heads: 0,"), "ramp.steps=0")
    assert [problem.key for problem in caught.value.problems] == ["model.heads", "ramp.steps"]
