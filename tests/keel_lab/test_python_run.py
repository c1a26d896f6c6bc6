"""`keel_lab.run`: the command line's `run` for a notebook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import analysis
import keel_lab
from keel_lab.errors import KeelLabError
from tests.command_line import TOYS, call

LOCAL = {"executor": "local", "tracking": "off"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEEL_LAB_STORAGE", raising=False)
    (tmp_path / "toys.yaml").write_text(TOYS)
    return tmp_path


def test_it_returns_how_the_sweep_ended_and_prints_nothing_to_standard_output(folder, capsys):
    summary = keel_lab.run("toys.yaml", **LOCAL)
    assert (summary.sweep, summary.completed, summary.failed, summary.exit_code) == ("toys", 1, 1, 1)
    assert list(summary.failures) == ["toy_crash-b4-s0"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "toy_crash-b4-s0: failed" in err
    assert list(analysis.load("toys")["state"]) == ["failed", "completed"]


def test_overrides_are_texts_or_a_dict(folder, capsys):
    store = folder / "elsewhere"
    options = {"storage": store, **LOCAL}
    one = keel_lab.run("toys.yaml", ["name=one", "grid.architecture=[toy]", "ramp.steps=30"], **options)
    two = keel_lab.run("toys.yaml", {"name": "two", "grid.architecture": ["toy"], "ramp.steps": 30}, **options)
    assert (one.exit_code, two.exit_code) == (0, 0)
    assert two.reused == 1  # the same trial
    assert list(analysis.load(["one", "two"], store)["schedule_steps"]) == [30, 30]


def test_a_wrong_sweep_raises_what_the_command_line_prints(folder, capsys):
    said = call(capsys, "run", "toys.yaml", "ramp.steps=1").err
    with pytest.raises(KeelLabError) as error:
        keel_lab.run("toys.yaml", {"ramp.steps": 1}, **LOCAL)
    assert said == f"error: {error.value}\n"
    with pytest.raises(KeelLabError, match="executor: found 'slurm'; must be ray or local"):
        keel_lab.run("toys.yaml", executor="slurm")
    with pytest.raises(KeelLabError, match="overrides: found the text"):
        keel_lab.run("toys.yaml", "ramp.steps=30", **LOCAL)


def test_it_runs_in_a_thread_which_may_not_touch_signals(folder):
    found = []
    thread = threading.Thread(target=lambda: found.append(keel_lab.run("toys.yaml", **LOCAL)))
    thread.start()
    thread.join()
    assert found[0].completed == 1


def test_ctrl_c_stops_at_a_checkpoint_and_raises(folder):
    code = (
        "import keel_lab\n"
        "try:\n    keel_lab.run('toys.yaml', {'grid.architecture': 'toy', 'ramp.steps': 5000}, executor='local', "
        "tracking='off')\nexcept KeyboardInterrupt:\n    print('stopped')"
    )
    environment = {**os.environ, "KEEL_TOY_SLEEP": "0.01", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        for line in process.stderr:
            if line == "1 trial\n":
                break
        while not list(folder.glob("keel-lab-store/trials/*/checkpoints/last.json")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "stopped\n"
    assert "go on with: keel-lab resume toys" in err
