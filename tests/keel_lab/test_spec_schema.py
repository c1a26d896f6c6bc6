"""The JSON Schema lets every shipped sweep pass and stops what an editor can know to be wrong.

That it refuses nothing which is good is tested beside the parser, on mutated sweeps (`test_spec_mutations`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from keel_lab.errors import SpecError
from keel_lab.spec import SweepSpec, fields, node
from keel_lab.spec.meanings import MEANINGS
from keel_lab.spec.schema import sweep_schema
from trainers.catalogue import CATALOGUE

SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
SCHEMA = sweep_schema(CATALOGUE)
VALIDATOR = Draft7Validator(SCHEMA)


def faults(text: str, *, validator: Draft7Validator = VALIDATOR) -> list[str]:
    root = node.read(text, "s.yaml", [])
    assert root is not None
    return [error.message for error in validator.iter_errors(root.plain())]


def test_it_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_shipped_sweeps_pass(path: Path) -> None:
    assert faults(path.read_text()) == []


def test_every_key_is_there_and_explained() -> None:
    assert list(SCHEMA["properties"]) == list(fields.TOP)
    for name, section in SCHEMA["properties"].items():
        assert section["description"] == MEANINGS[name]
        for key, one in section.get("properties", {}).items():
            assert one["description"], f"{name}.{key}"
    for protocol, names in fields.PROTOCOLS.items():
        axes = SCHEMA["definitions"][f"{protocol}_ours"]["properties"]
        assert {*(f"{name}.steps" for name in names), "width", "alpha", "seed"} <= set(axes)
        assert ("steps" in axes) == (len(names) == 1)  # else it has two meanings
    assert "lr" not in SCHEMA["definitions"]["ramp_ours"]["properties"]


def test_sections_that_cannot_vary_take_no_list() -> None:
    assert SCHEMA["properties"]["resources"]["properties"]["cpus"]["type"] == "integer"
    assert "default 2147483648" in SCHEMA["properties"]["resources"]["properties"]["memory"]["description"]


WRONG = [
    ("schema: 1\n", ""),
    ("schema: 1", "schema: 2"),
    ("name: toy", "name: ../toy"),
    ("name: toy", "name: [toy]"),
    ("protocol: ramp", "protocol: rampe"),
    ("model:", "Model:"),
    ("width: 32", "widht: 32"),
    ("width: 32", "width: '32'"),
    ("width: 32", "width: 1"),
    ("width: 32", "width: []"),
    ("width: 32", "width: {log: [1, 2]}"),
    ("width: 32", "width: {lgo: [1, 2, 3]}"),
    ("ffn: swiglu", "ffn: relu"),
    ("init_std: 0.02", "init_std: match"),
    ("betas: [0.9, 0.95]", "betas: [0.9, 1.0]"),
    ("betas: [0.9, 0.95]", "betas: [0.9]"),
    ("clip_norm: 1.0", "clip_norm: null"),
    ("precision: fp32", "precision: fp16"),
    ("skip_nonfinite: false", "skip_nonfinite: no"),
    ("peak_lr: 0.1", "peak_lr: 0"),
    ("steps: 600", "kind: ramp"),
    ("steps: 600", "preset: papr"),
    ("divergence: {}", "divergence: {confirm: 5}"),
    ("divergence: {}", "divergence: {alarm_sigma: [1, 2]}"),
    ("memory: 2GiB", "memory: 2 gigabytes"),
    ("cpus: 1", "cpus: [1, 2]"),
    ("wall_time: null", "wall_time: soon"),
    ("corpus: stdlib", "corpus: wiki"),
    ("keel: {alpha: L}", "keel: {alhpa: L}"),
    ("keel: {alpha: L}", "keel: {alpha: depth}"),
    ("keel: {alpha: L}", "keel: {exemption: 1}"),
    ("[post_ln, pre_ln, keel]", "[post_ln, kel]"),
    ("depth: {blocks: [4, 8]}", "depth: 16"),
    ("depth: {blocks: [4, 8]}", "depth: {blocks: 4, sublayers: 8}"),
    ("seed: [0, 1, 2]", "seeds: [0]"),
    ("seed: [0, 1, 2]", "seed: [-1]"),
    ("seed: [0, 1, 2]", "lr: [1e-3]"),
    ("ramp:  {", "schedule: {steps: 5}\nramp: {"),
]


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_wrong_files_fail_as_they_do_in_the_parser(
    old: str, new: str, good: str, read: Callable[..., SweepSpec]
) -> None:
    assert good.count(old) == 1
    assert faults(good) == []
    assert faults(good.replace(old, new))
    with pytest.raises(SpecError):
        read(good.replace(old, new))


def test_a_trainer_of_ones_own_frees_architectures_and_their_options(good: str) -> None:
    own = good.replace("protocol: ramp", "protocol: ramp\ntrainer: my_job").replace("[post_ln,", "[mine,")
    assert faults(own.replace("seed: [0, 1, 2]", "layers: [1, 2]")) == []
    assert faults(own.replace("width: 32", "widht: 32"))
