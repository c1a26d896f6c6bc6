"""`logs` and `retry` on a sweep with a trial that fails until its trainer is mended."""

from __future__ import annotations

import json

import pytest

from tests import toy_trainer
from tests.command_line import TOYS, call

RUN = ("--executor", "local", "--tracking", "off")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEEL_LAB_STORAGE", raising=False)
    (tmp_path / "toys.yaml").write_text(TOYS)
    return tmp_path


@pytest.fixture
def failed(folder, capsys):
    """One of its two trials has failed, the other is done."""
    assert call(capsys, "run", "toys.yaml", *RUN).code == 1
    return folder


def mend(monkeypatch):
    monkeypatch.setattr(toy_trainer, "_misbehave", lambda trial, step, first: None)


def status(capsys):
    cells = json.loads(call(capsys, "status", "toys", "--json").out)["cells"]
    return {row["name"]: row["state"] for cell in cells for row in cell["trials"]}


def test_logs_by_name_sweep_and_prefix(failed, capsys):
    by_name = call(capsys, "logs", "toy_crash-b4-s0")
    assert by_name.code == 0
    assert "ZeroDivisionError: the toy fell off the table" in by_name.out
    assert by_name.out.count("--- attempt") == 8  # each says when it began and how it ended
    assert "crash: ZeroDivisionError: the toy fell off the table (toy_trainer.py:" in by_name.out.splitlines()[-1]
    assert call(capsys, "logs", "toys/toy_crash-b4-s0") == by_name
    told = json.loads(call(capsys, "logs", "toy_crash-b4-s0", "--json").out)
    assert [attempt["kind"] for attempt in told["attempts"]] == ["crash"] * 4
    assert told["sweeps"] == ["toys"]
    assert call(capsys, "logs", told["trial_id"][:6]) == by_name
    done = call(capsys, "logs", "toy-b4-s0", "--sweep", "toys")
    assert "attempt 1 at" in done.out
    assert "failed" not in done.out


def test_a_trial_that_has_not_run_has_no_log(folder, capsys):
    assert call(capsys, "run", "toys.yaml", "budget.trials=1", *RUN).code == 3
    ended = call(capsys, "logs", "toy-b4-s0")
    assert ended == (2, "", "error: trial toy-b4-s0 has no log yet: it has not run; keel-lab resume toys runs it\n")


def test_retry_runs_the_failed_trial_once_its_cause_is_mended(failed, capsys, monkeypatch):
    assert status(capsys) == {"toy_crash-b4-s0": "failed", "toy-b4-s0": "completed"}
    assert call(capsys, "retry", "toys", *RUN).code == 1
    attempts = json.loads(call(capsys, "logs", "toy_crash-b4-s0", "--json").out)["attempts"]
    assert len(attempts) == 4  # those of before are forgotten
    mend(monkeypatch)
    ended = call(capsys, "retry", "toys", "--failed", *RUN)
    assert ended.code == 0
    assert "again: toy_crash-b4-s0" in ended.err
    assert "toy_crash" in ended.out
    assert status(capsys) == {"toy_crash-b4-s0": "completed", "toy-b4-s0": "completed"}
    assert json.loads(call(capsys, "logs", "toy_crash-b4-s0", "--json").out)["attempts"] == []
    nothing = call(capsys, "retry", "toys", *RUN)
    assert nothing == (0, "", "no trial of toys has failed; keel-lab status toys shows how far it is\n")


def test_retry_runs_nothing_else(folder, capsys, monkeypatch):
    assert call(capsys, "run", "toys.yaml", "budget.trials=1", *RUN).code == 3
    mend(monkeypatch)
    ended = call(capsys, "retry", "toys", "toy_crash-b4-s0", *RUN)
    assert ended.code == 3
    assert "1 trial left" in ended.err
    assert status(capsys) == {"toy_crash-b4-s0": "completed", "toy-b4-s0": "waiting"}


def test_retry_refuses_what_makes_no_sense(failed, capsys):
    finished = call(capsys, "retry", "toys", "toy-b4-s0", *RUN)
    assert finished.code == 2
    assert "toy-b4-s0 (completed) finished: a result is not run again" in finished.err
    both = call(capsys, "retry", "toys", "toy-b4-s0", "--failed", *RUN)
    assert "found --failed beside toy-b4-s0" in both.err
    unknown = call(capsys, "retry", "toys", "toy_crush-b4-s0", *RUN)
    assert "did you mean toy_crash-b4-s0" in unknown.err
    assert {ended.code for ended in (both, unknown)} == {2}
    assert len(json.loads(call(capsys, "logs", "toy_crash-b4-s0", "--json").out)["attempts"]) == 4
