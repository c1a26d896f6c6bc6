"""`status --watch` beside a driver: what it shows, and when it ends."""

from __future__ import annotations

import io
import json
from contextlib import ExitStack

import pytest

from keel_lab.errors import UsageError
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.status import read_status, status_text
from keel_lab.schedule.watching import watch
from keel_lab.schedule.worker import attempt
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.command_line import call
from tests.toy_sweep import toy_sweep, toy_task, toy_trial


class Driver:
    """Holds the sweep and does the next thing at every pause of the watcher; frees it when nothing is left."""

    def __init__(self, root, *things):
        self.things, self.stack = list(things), ExitStack()
        self.stack.enter_context(lease.hold(root, "toys"))

    def __call__(self, seconds):
        if self.things:
            self.things.pop(0)()
        else:
            self.stack.close()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path / "store")


@pytest.fixture
def sweep(root):
    return Sweeps(root).save(toy_sweep(toy_trial(steps=30), toy_trial("toy_crash", steps=60)))


def one(root, planned):
    def run():
        task = toy_task(planned.trial, root)
        ended = attempt(task, LocalMailbox())
        if hasattr(ended, "kind"):
            Trials(root).add_attempt(planned.trial.id, ended)

    return run


def test_a_pipe_gets_a_line_a_change_and_the_table(root, sweep):
    good, bad = sweep.trials
    out = io.StringIO()
    code = watch("toys", root, out, as_json=False, pause=Driver(root, one(root, good), one(root, bad)))
    assert code == 1  # one has failed, and nobody tries it again
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["toys: 2 waiting", "toys: 1 completed, 1 waiting", "toys: 1 completed, 1 failed"]
    assert lines[3].startswith("sweep toys: 2 trials: 1 completed, 1 failed; nobody runs it now")


def test_json_is_an_object_a_change(root, sweep):
    good, _ = sweep.trials
    out = io.StringIO()
    assert watch("toys", root, out, as_json=True, pause=Driver(root, lambda: None, one(root, good))) == 3
    told = [json.loads(line)["states"] for line in out.getvalue().splitlines()]
    assert told == [{"waiting": 2}, {"completed": 1, "waiting": 1}, {"completed": 1, "waiting": 1}]


def test_a_terminal_sees_the_table(root, sweep):
    good, _ = sweep.trials
    out = Terminal()
    assert watch("toys", root, out, as_json=False, pause=Driver(root, one(root, good))) == 3
    assert "go on with: keel-lab resume toys" in out.getvalue()


def test_a_terminal_that_is_too_small_shows_what_runs(root):
    trials = [toy_trial(seed=seed, steps=30) for seed in range(40)]
    sweep = Sweeps(root).save(toy_sweep(*trials))
    live = {"written_at": 0.0, "running": {trials[37].id: {"step": 7, "loss": 2.0, "state": "healthy"}}}
    with lease.hold(root, "toys"):
        Sweeps(root).put_file("toys", "live.json", json.dumps(live).encode())
        shown = status_text(read_status("toys", root), 5).splitlines()
    assert shown[3].split() == ["toy-b4-s37", "running", "7/30", "2.000", "healthy"]
    assert shown[4].startswith("toy-b4-s0 ")
    assert shown[8] == "and 35 more"
    assert len(status_text(read_status("toys", root)).splitlines()) > len(sweep.trials)


def test_it_waits_for_a_driver_that_has_just_begun(root):
    sweep = toy_sweep(toy_trial(steps=30))
    (only,) = sweep.trials
    driver = Driver(root, lambda: Sweeps(root).save(sweep), one(root, only))
    out = io.StringIO()
    assert watch("toys", root, out, as_json=False, pause=driver) == 0
    driver.stack.close()
    assert out.getvalue().splitlines()[:2] == ["toys: 1 waiting", "toys: 1 completed"]


def test_a_sweep_that_nobody_runs_is_shown_once(root, sweep, capsys):
    ended = call(capsys, "status", "toys", "--watch", "--storage", root.uri)
    assert ended.code == 3
    assert ended.out.startswith("toys: 2 waiting\nsweep toys: 2 trials: 2 waiting; nobody runs it now\n")
    with pytest.raises(UsageError, match="no sweep 'toy'"):
        watch("toy", root, io.StringIO(), as_json=False, pause=lambda seconds: None)
