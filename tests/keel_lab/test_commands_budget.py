"""Budgets from the command line: a run that comes to its bounds exits with 3 and says how to go on."""

from __future__ import annotations

import pytest

from keel_lab.schedule import news, ray_executor
from tests.command_line import TOYS, call

SEEDS = TOYS.replace("[toy_crash, toy]", "[toy]").replace("  depth", "  seed: [0, 1, 2]\n  depth")


@pytest.fixture
def run(tmp_path, capsys):
    file = tmp_path / "toys.yaml"

    def words(*extra, text=SEEDS):
        file.write_text(text)
        options = ("--executor", "local", "--tracking", "off", "--storage", str(tmp_path / "store"))
        return (
            call(capsys, *extra, *options)
            if extra[0] != "run"
            else call(capsys, "run", str(file), *extra[1:], *options)
        )

    return words


def test_trials(run):
    ended = run("run", "budget.trials=2")
    assert ended.code == 3
    assert ended.err.splitlines()[-1] == (
        "1 trial left (the budget of 2 trials is used up); go on with: keel-lab resume toys"
    )
    assert run("resume", "toys").code == 0


def test_wall_time(run, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.01")
    monkeypatch.setattr(news, "BATCH_EVERY", 0.0)
    ended = run("run", "budget.wall_time=0.3s")
    assert ended.code == 3
    assert "the wall time of 0.3 s is over: running trials checkpoint and stop" in ended.err
    assert ended.err.splitlines()[-1].endswith("(the wall time of 0.3 s is over); go on with: keel-lab resume toys")


@pytest.mark.parametrize("mode", ["lines", "line", "table"])
def test_every_display_ends_with_all_trials(run, mode):
    ended = run("run", "--progress", mode)
    assert ended.code == 0
    assert "3/3 trials" in ended.err or (mode == "lines" and ended.err.count("healthy") == 3)


def test_the_compact_line_is_a_line(run):
    lines = run("run", "--progress", "line").err.splitlines()
    assert lines[0].startswith("0/3 trials, 0 running, ETA")
    assert [line for line in lines if line.startswith("3/3 trials, 0 running")]
    assert not [line for line in lines if "started" in line]


def test_where_all_is_done_no_executor_is_opened(run, tmp_path, capsys, monkeypatch):
    assert run("run").code == 0

    def fail(*_):
        raise AssertionError("Ray was started for nothing")

    monkeypatch.setattr(ray_executor, "RayExecutor", fail)
    ended = call(capsys, "resume", "toys", "--tracking", "off", "--storage", str(tmp_path / "store"))
    assert ended.code == 0
    assert "toy" in ended.out
