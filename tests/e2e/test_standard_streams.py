"""Standard output holds data: whatever a trainer prints goes elsewhere; one that is closed or full is no crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TRAINER = """
from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at

def preflight(trial):
    pass

def run(trial, workdir, report):
    print("hello from", trial.architecture)
    print("no newline", end="")
    for step in range(1, trial.schedule.steps + 1):
        report.step(Step(step, 5.0, lr_at(trial.schedule, step)))
"""
SWEEP = """\
schema: 1
name: talks
protocol: grid
trainer: talker
grid: {architecture: [flat], depth: {blocks: [1]}, lr: [1e-3]}
schedule: {steps: 5, warmup_steps: 0}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "talker.py").write_text(TRAINER)
    (tmp_path / "talks.yaml").write_text(SWEEP)
    return tmp_path


def shell(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """`keel-lab WORDS`, redirections included."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KEEL_", "MLFLOW", "RAY"))}
    clean |= {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])}
    command = f"{sys.executable} -m keel_lab {words}"
    return subprocess.run(["bash", "-c", command], cwd=folder, env=clean, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_prints_of_a_trainer_are_in_its_log_and_not_in_the_data(folder, executor):
    ran = shell(folder, f"run talks.yaml --tracking off --executor {executor} --format json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["schema"] >= 1
    assert ("hello from flat" in ran.stderr) == (executor == "local")
    said = shell(folder, "logs talks/flat-b1-s0").stdout.splitlines()
    assert said.count("hello from flat") == 1
    assert "no newline" in said


@pytest.mark.parametrize("words", ["plan talks.yaml", "run talks.yaml --tracking off --executor local", "--version"])
def test_a_standard_output_that_is_closed_takes_nothing(folder, words):
    ended = shell(folder, f"{words} >&-")
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", ["plan talks.yaml", "run talks.yaml --tracking off --executor local"])
def test_one_that_is_full_is_said_and_what_ran_is_stored(folder, words):
    ended = shell(folder, f"{words} > /dev/full")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "error: standard output cannot be written: no space left; what was stored is stored"
    )
    if words.startswith("run"):
        assert "1 completed; complete" in shell(folder, "status talks").stdout
