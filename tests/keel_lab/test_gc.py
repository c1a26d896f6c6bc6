"""`keel-lab gc`: what goes, what stays, and that nothing is lost by it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from keel_lab.plan.planned import Cell
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.settings import SiblingSettings
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.command_line import call
from tests.toy_sweep import outcome, toy_sweep, toy_task, toy_trial


@pytest.fixture
def root(tmp_path):
    """A finished trial with checkpoints, last and kept, and one that was stopped on its way."""
    root = Root.open(tmp_path)
    sweep = toy_sweep(toy_trial(collapse_lr=0.01), siblings=SiblingSettings(reference=False, holds=2))
    executor = LocalExecutor()
    for planned in sweep.trials:
        Trials(root).put_trial(planned.trial)
        task = toy_task(planned.trial, root)
        executor.submit(type(task)(task.trial, task.thresholds, task.storage, keep=(50, 100)))
        executor.next_done(1.0)
    unfinished = toy_trial(seed=9)
    Trials(root).put_trial(unfinished)
    checkpoint = tmp_path / "toy.ckpt"
    checkpoint.write_text("{}")
    Trials(root).put_checkpoint(unfinished.id, 1, checkpoint, Trials(root).curve(sweep.trials[0].trial.id).prefix(1))
    return root


def gc(root, capsys, *words):
    ended = call(capsys, "gc", *words, "--json", "--storage", root.uri)
    assert ended.code == 0
    return json.loads(ended.out)


def names(root, folder):
    return [name for trial_id in root.list("trials") for name in root.list(f"trials/{trial_id}/{folder}")]


def test_a_dry_run_counts_and_deletes_nothing(root, capsys):
    before = (names(root, "kept"), names(root, "checkpoints"))
    found = gc(root, capsys, "--keep", "none", "--dry-run")
    assert found["trials"] == found["unfinished"] == 1
    assert found["files"] == len(before[0]) + 4  # a checkpoint, its curve and timing, and the pointer
    assert found["bytes"] > 0
    assert (names(root, "kept"), names(root, "checkpoints")) == before


def test_last_keeps_the_last_checkpoint(root, capsys):
    before = names(root, "checkpoints")
    found = gc(root, capsys)
    assert (found["files"], found["kept"]) == (8, 4)
    assert names(root, "kept") == []
    assert names(root, "checkpoints") == before


def test_none_keeps_results_and_what_is_unfinished(root, capsys):
    trial = toy_trial(collapse_lr=0.01)
    before = outcome(root, trial)
    gc(root, capsys, "--keep", "none")
    assert outcome(root, trial) == before
    assert root.list(f"trials/{trial.id}/checkpoints") == []
    assert Trials(root).checkpoint_step(toy_trial(seed=9).id) == 1
    assert gc(root, capsys, "--keep", "none")["files"] == 0


def test_best_keeps_the_last_checkpoint_of_the_best_trial_of_each_cell(tmp_path, capsys):
    root = Root.open(tmp_path)
    better, worse = toy_trial(collapse_lr=0.03), toy_trial(seed=1, collapse_lr=0.01)
    other = toy_trial("other", steps=60)
    sweep = toy_sweep(worse, better, other)
    sweep = replace(sweep, trials=tuple(replace(one, cell=Cell(one.trial.architecture, 4)) for one in sweep.trials))
    Sweeps(root).save(sweep)
    executor = LocalExecutor()
    for planned in sweep.trials:
        executor.submit(toy_task(planned.trial, root))
        executor.next_done(1.0)
    lrs = {one.id: Trials(root).result(one.id).verdict.last_good_lr for one in (better, worse)}
    assert lrs[better.id] > lrs[worse.id]
    assert gc(root, capsys, "--keep", "best", "--dry-run")["trials"] == 1
    gc(root, capsys, "--keep", "best")
    kept = {one for one in root.list("trials") if root.list(f"trials/{one}/checkpoints")}
    assert kept == {better.id, other.id}


def test_best_deletes_nothing_where_a_sweep_is_damaged(root, capsys):
    root.write("sweeps/toys/sweep.json", b"{")
    before = names(root, "checkpoints")
    assert call(capsys, "gc", "--keep", "best", "--storage", root.uri).code == 1
    assert names(root, "checkpoints") == before
