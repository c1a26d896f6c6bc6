"""The command line as a whole: help, versions, `--debug`, completion, and faults that nobody foresaw."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import click
import pytest

from keel_lab import __version__
from keel_lab.cli import MODULES, cli
from tests.command_line import TOYS, call


def test_every_command_is_there_and_in_the_help(capsys):
    ended = call(capsys, "--help")
    assert ended.code == 0
    context = click.Context(cli)
    for name in MODULES:
        command = cli.get_command(context, name)
        assert command.name == name
        assert f"\n  {name} " in ended.out
        assert call(capsys, name, "--help").out.startswith(f"Usage: keel-lab {name} ")


def test_reading_commands_have_json():
    context = click.Context(cli)
    reading = {"validate", "plan", "status", "logs", "report", "judge", "rejudge", "explain", "sync"}
    with_json = {
        name for name in MODULES if any("--json" in option.opts for option in cli.get_command(context, name).params)
    }
    assert reading <= with_json


def test_version_names_the_stack(capsys):
    ended = call(capsys, "--version")
    lines = ended.out.splitlines()
    assert lines[0] == f"keel-lab {__version__}"
    assert {f"torch {version('torch')}", f"ray {version('ray')}", f"mlflow {version('mlflow')}"} <= set(lines)


@pytest.mark.parametrize(
    "words", [("--debug", "status", "no"), ("status", "no", "--debug"), ("status", "--debug", "no")]
)
def test_debug_shows_the_traceback_wherever_it_stands(capsys, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    plain = call(capsys, "status", "no")
    assert plain.err.startswith("error: no sweep 'no' in ")
    debug = call(capsys, *words)
    assert debug.code == plain.code == 2
    assert debug.err.startswith("Traceback")
    assert debug.err.endswith(plain.err)


def test_a_fault_of_ours_is_two_lines_without_debug(capsys, monkeypatch):
    def broken(path, overrides, root):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("keel_lab.composition.open_sweep", broken)
    ended = call(capsys, "plan", "x.yaml")
    assert ended == (
        1,
        "",
        "error: ZeroDivisionError: a bug\n"
        "keel-lab did not foresee this; the same command with --debug shows where it happened\n",
    )
    assert "in broken" in call(capsys, "plan", "x.yaml", "--debug").err


def completed(folder, words):
    """What a shell would offer after these words."""
    environment = {
        **os.environ,
        "_KEEL_LAB_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "KEEL_LAB_STORAGE": str(folder / "store"),
    }
    code = (
        "import sys\nfrom keel_lab.cli import main\nsys.argv = ['keel-lab']\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'torch', 'ray', 'mlflow', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "    assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.split(",")[1] for line in done.stdout.splitlines() if line]


def test_a_shell_completes_commands_options_and_sweeps(tmp_path, capsys, monkeypatch):
    (tmp_path / "toys.yaml").write_text(TOYS.replace("toy_crash, ", ""))
    words = ("--storage", str(tmp_path / "store"), "--executor", "local", "--tracking", "off")
    for name in ("one", "other"):
        assert call(capsys, "run", str(tmp_path / "toys.yaml"), f"name={name}", *words).code == 0
    assert completed(tmp_path, "keel-lab re") == ["resume", "retry", "report", "rejudge"]
    assert completed(tmp_path, "keel-lab status o") == ["one", "other"]
    assert completed(tmp_path, "keel-lab report one ot") == ["other"]
    assert completed(tmp_path, "keel-lab status --wa") == ["--watch"]
    assert completed(tmp_path / "nowhere", "keel-lab status ") == []
