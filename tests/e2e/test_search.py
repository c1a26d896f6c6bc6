"""A search as a process: watched by optuna-dashboard while it runs, killed with -9, resumed; and over Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from keel_lab.store.points import State
from tests.dashboard import states
from tests.search_bench import PRUNED, SEARCH, Bench, asked

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120  # seconds


def start(folder: Path, *words: str, sleep: str, text: str = SEARCH) -> subprocess.Popen[str]:
    file = folder / "bowl.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "keel_lab", "run", str(file), *words, "--tracking", "off"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "KEEL_BOWL_SLEEP": sleep}
    return subprocess.Popen(
        [*command, "--storage", str(folder / "store")],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def in_dashboard(folder: Path) -> list[str]:
    return states(f"sqlite:///{folder / 'store' / 'optuna.db'}")


def test_watched_while_it_runs_killed_and_resumed_it_asks_the_same_points(tmp_path) -> None:
    killed, whole = Bench(tmp_path), Bench(tmp_path / "whole")
    whole.folder.mkdir()
    search = start(tmp_path, "--executor", "local", sleep="0.02")
    deadline = time.monotonic() + PATIENCE
    try:
        while len([one for one in killed.points() if one.state is State.COMPLETE]) < 3:
            assert search.poll() is None, search.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        seen = in_dashboard(tmp_path)
        assert search.poll() is None
    finally:
        search.send_signal(signal.SIGKILL)
        search.communicate()
    assert seen.count("Complete") >= 3
    assert "Running" in seen
    before = killed.points()
    assert 3 < len(before) < 12
    assert before[-1].state is State.RUNNING
    assert killed.resume().exit_code == whole.run().exit_code == 0
    assert asked(killed.points()) == asked(whole.points())
    assert asked(killed.points(fresh=True)) == asked(whole.points(fresh=True))
    complete = [one for one in whole.points() if one.state is State.COMPLETE]
    assert in_dashboard(tmp_path).count("Complete") == len(complete)


def test_over_ray_points_run_side_by_side_and_one_of_them_is_cut(tmp_path) -> None:
    words = ("search.points=8", "search.pruner.spare_slow_starters=false", "search.remeasure.best=0")
    search = start(tmp_path, *words, sleep="0.03", text=PRUNED)
    output, _ = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0, output
    found = Bench(tmp_path).points()
    assert len(found) == 8
    assert {point.state for point in found} <= {State.COMPLETE, State.PRUNED}
    cut = [point for point in found if point.cut]
    assert cut
    assert f"{len(cut)} cut by the pruner: not trained to their end" in output
