from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.plan import expand
from keel_lab.spec import SweepSpec

Reader = Callable[..., SweepSpec]

VARIANTS = [
    (),
    ("grid.width=[32,64]", "train.betas=[[0.9,0.95],[0.9,0.99]]"),
    ("model.init_std=[0.02,match_width]", "train.skip_nonfinite=[true,false]"),
    ("per_architecture.keel.alpha=[1,L^0.25]", "per_architecture.mix_ln.fraction=0.5"),
    ("grid.alpha=[1,2L]", "grid.depth.sublayers=[8]"),
    ("ramp.preset=paper", "budget.wall_time=2h", "resources.memory=512MiB", "data.text=/books/*"),
]


def test_the_example_of_the_design_is_read_key_by_key(read: Reader, good: str) -> None:
    spec = read(good)
    assert (spec.name, spec.protocol, spec.folder) == ("toy", "ramp", Path("/sweeps"))
    assert spec.question == "What does depth change?"
    assert spec.data == {"corpus": "stdlib", "tokenizer": "bytes"}
    assert (spec.resources.memory, spec.budget.max_concurrent) == (2 * 2**30, None)
    assert spec.options == {"keel": {"alpha": ("L",)}}


def test_the_document_has_every_default_and_the_order_of_the_file(read: Reader, good: str) -> None:
    document = read(good).document
    assert list(document) == [
        "schema",
        "name",
        "question",
        "protocol",
        "grid",
        "per_architecture",
        "model",
        "data",
        "train",
        "ramp",
        "siblings",
        "divergence",
        "resources",
        "budget",
    ]
    assert document["grid"]["depth"] == {"blocks": [4, 8]}
    assert document["train"]["accumulate"] == 1
    assert document["divergence"]["alarm_sigma"] == 40.0


def test_only_what_a_sweep_must_say_is_required(read: Reader) -> None:
    spec = read("schema: 1\nname: t\nprotocol: ramp\ngrid: {architecture: pre_ln, depth: {blocks: 4}}\n")
    assert spec.data == {"corpus": "stdlib", "tokenizer": "bytes"}
    assert spec.document["ramp"] == {"shape": "log", "from_lr": 1e-4, "peak_lr": 0.1, "steps": 600}


def test_empty_sections_are_their_defaults(read: Reader, good: str) -> None:
    kept = [line for line in good.splitlines() if line.split(":")[0] not in ("divergence", "resources", "budget")]
    assert read("\n".join([*kept, "divergence:", "resources:", "budget:"])).document == read(good).document


def test_the_preset_is_the_papers_ramp_and_keys_beside_it_win(read: Reader, good: str) -> None:
    line = "ramp:  {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 600}"
    paper = {"shape": "linear", "from_lr": 0.0, "peak_lr": 0.05, "steps": 5000}
    assert read(good.replace(line, "ramp: {preset: paper}")).document["ramp"] == paper
    spec = read(good.replace(line, "ramp: {preset: paper, steps: 50}"))
    assert spec.document["ramp"] == {**paper, "steps": 50}


@pytest.mark.parametrize("overrides", VARIANTS)
def test_the_document_is_itself_a_sweep_that_plans_the_same(
    read: Reader, good: str, overrides: tuple[str, ...], catalogue: Catalogue, facts: CorpusFacts
) -> None:
    spec = read(good, *overrides)
    again = read(json.dumps(spec.document))
    assert expand(again, catalogue, facts) == expand(spec, catalogue, facts)
    assert again.document == spec.document


@pytest.mark.parametrize("overrides", VARIANTS)
def test_a_spec_survives_json(
    read: Reader, good: str, overrides: tuple[str, ...], catalogue: Catalogue, facts: CorpusFacts
) -> None:
    spec = read(good, *overrides)
    again = SweepSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert again == spec
    assert expand(again, catalogue, facts) == expand(spec, catalogue, facts)


def test_a_grid_sweep_keeps_its_percentage(read: Reader, grid_text: str) -> None:
    schedule = read(grid_text).document["schedule"]
    assert schedule["warmup"] == "10%"
    assert "warmup_steps" not in schedule
