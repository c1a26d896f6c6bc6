"""`init`, `validate`, `schema`, `plan --resolved`: what a sweep file is checked, completed and written with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from keel_lab.spec import node
from tests.command_line import TOYS, call
from tests.toy_sweep import refusal

QUICKSTART = Path(__file__).parents[2] / "sweeps" / "quickstart.yaml"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEEL_LAB_STORAGE", raising=False)


def ids(capsys, *words):
    """What a file plans, without what names it."""
    found = json.loads(call(capsys, "plan", *words, "--json").out)
    return {key: value for key, value in found.items() if key not in ("estimate", "name")}


def test_validate_says_what_a_file_stands_for(capsys, tmp_path):
    ended = call(capsys, "validate", str(QUICKSTART))
    assert ended == (0, f"{QUICKSTART}: valid: sweep quickstart, 6 trials in 6 cells\n", "")
    told = json.loads(call(capsys, "validate", str(QUICKSTART), "grid.seed=[0,1]", "--json").out)
    assert told == {
        "file": str(QUICKSTART),
        "valid": True,
        "problems": [],
        "name": "quickstart",
        "trials": 12,
        "cells": 6,
    }
    assert not list(tmp_path.iterdir())


def test_validate_says_everything_that_is_wrong(capsys):
    words = ("validate", str(QUICKSTART), "model.heads=3", "model.widht=3")
    plain = call(capsys, *words)
    assert (plain.code, plain.out) == (2, "")
    told = call(capsys, *words, "--json")
    assert (told.code, told.err) == (2, "")
    problems = json.loads(told.out)["problems"]
    assert plain.err == "error: " + "\n".join(problem["message"] for problem in problems) + "\n"
    assert problems[0] == {
        "place": "command line: model.widht=3",
        "key": "model.widht",
        "found": "an unknown key",
        "allowed": problems[0]["allowed"],
        "nearest": "width",
        "message": problems[0]["message"],
    }


def test_validate_asks_the_trainer(capsys, tmp_path):
    ended = call(capsys, "validate", str(QUICKSTART), "resources.gpus=2")
    assert ended == (
        2,
        "",
        "error: resources.gpus: found 2; a worker has one GPU at most: give 0 to 1, and more workers\n",
    )
    told = json.loads(call(capsys, "validate", str(QUICKSTART), "resources.gpus=2", "--json").out)
    assert [problem["message"] for problem in told["problems"]] == [ended.err.removeprefix("error: ").rstrip()]
    (tmp_path / "toys.yaml").write_text(TOYS.replace("toy_crash", "toy_impossible"))
    own = call(capsys, "validate", "toys.yaml")
    assert own == (2, "", f"error: {refusal('toy_impossible')}\n")


def test_schema_prints_what_editors_read(capsys):
    ended = call(capsys, "schema")
    assert (ended.code, ended.err) == (0, "")
    Draft7Validator.check_schema(json.loads(ended.out))


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("grid.alpha=[1, sqrt(L), 2 L]", "grid.model.width={log: [32, 128, 3]}", "train.eps={linear: [1e-8, 3e-8, 3]}"),
        ("protocol=grid", "ramp=null", "siblings=null", "grid.lr={log: [1e-4, 1e-2, 3]}", "schedule.warmup=12.5%"),
        ("ramp=null", "ramp.preset=paper", "train.clip_norm=off", "budget.wall_time=1h30m", "question='1e5'"),
        ("grid.depth={sublayers: [2, 6]}", "grid.seed=null", "grid.init_seed=[0, 1]", "grid.data_seed=7"),
    ],
)
def test_the_resolved_file_plans_the_same_trials(capsys, tmp_path, overrides):
    resolved = call(capsys, "plan", str(QUICKSTART), "--resolved", *overrides)
    assert (resolved.code, resolved.err) == (0, "")
    (tmp_path / "again.yaml").write_text(resolved.out)
    assert ids(capsys, "again.yaml") == ids(capsys, str(QUICKSTART), *overrides)
    assert call(capsys, "plan", "again.yaml", "--resolved").out == resolved.out
    as_json = json.loads(call(capsys, "plan", "again.yaml", "--resolved", "--json").out)
    assert as_json == node.read(resolved.out, "again.yaml", []).plain()


def test_the_resolved_file_says_what_its_text_is_relative_to(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("some words " * 2000)
    (tmp_path / "s.yaml").write_text(QUICKSTART.read_text().replace("corpus: stdlib", "text: '*.txt'"))
    resolved = call(capsys, "plan", "s.yaml", "--resolved").out
    assert resolved.startswith(f"# text is relative to {tmp_path}: keep this file there\n")
    (tmp_path / "again.yaml").write_text(resolved)
    assert ids(capsys, "again.yaml") == ids(capsys, "s.yaml")


def test_init_writes_a_sweep_that_runs(capsys, tmp_path):
    assert call(capsys, "init").code == 0
    text = Path("sweep.yaml").read_text()
    assert "name: my_sweep  " in text
    valid = call(capsys, "validate", "sweep.yaml")
    assert valid.out == "sweep.yaml: valid: sweep my_sweep, 3 trials in 3 cells\n"
    schema = json.loads(call(capsys, "schema").out)
    assert not list(Draft7Validator(schema).iter_errors(node.read(text, "sweep.yaml", []).plain()))
    ran = call(capsys, "run", "sweep.yaml", "ramp.steps=40", "--executor", "local", "--tracking", "off")
    assert ran.code == 0
    assert "keel" in ran.out


def test_init_names_the_sweep_after_its_file_and_overwrites_nothing(capsys):
    assert call(capsys, "init", "my first.yaml").code == 0
    assert "name: my_first  " in Path("my first.yaml").read_text()
    again = call(capsys, "init", "my first.yaml")
    assert again == (2, "", "error: my first.yaml: it is there already and is left alone; name another file\n")
    assert call(capsys, "init", "nowhere/sweep.yaml").code == 2
