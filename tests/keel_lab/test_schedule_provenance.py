"""Which code ran, read off real git checkouts; and the machine's load, as MLflow names it."""

import subprocess
import sys

import pytest

from keel_lab.schedule import machine_load, provenance
from keel_lab.schedule.executor import Task
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.store.root import Root
from tests.toy_sweep import toy_task, toy_trial


def git(folder, *words):
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", "-C", folder, *settings, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "tracked.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "tracked.py")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_checkout_gives_its_commit_and_says_that_it_was_changed(checkout):
    commit = git(checkout, "rev-parse", "HEAD").strip()
    assert provenance._commit(checkout) == commit
    (checkout / "new.txt").write_text("results")
    assert provenance._commit(checkout) == commit
    (checkout / "tracked.py").write_text("a = 2\n")
    assert provenance._commit(checkout) == f"{commit}+changes"


def test_a_package_that_only_lies_in_a_checkout_is_not_of_it(checkout):
    (checkout / "venv").mkdir()
    (checkout / "venv" / "installed.py").write_text("")
    assert provenance._commit(checkout / "venv", "installed.py") is None
    assert provenance._commit(checkout, "tracked.py") is not None


def test_no_checkout_no_commit_and_no_git_no_error(tmp_path, monkeypatch):
    assert provenance._commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance._commit(tmp_path) is None


def test_every_result_says_which_versions_it_was_made_with(tmp_path):
    executor = LocalExecutor()
    executor.submit(toy_task(toy_trial(steps=30), Root.open(tmp_path)))
    done = executor.next_done(60.0)
    executor.close()
    found = done.result.execution["versions"]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"keel_lab", "torch", "numpy"} <= set(found)
    assert isinstance(done.task, Task)


def test_the_machine_is_sampled_when_a_sample_is_due(monkeypatch):
    monkeypatch.setenv(machine_load.INTERVAL, "5")
    load = machine_load.MachineLoad(100.0)
    found = load.sample(100.0)
    assert all(name.startswith("system/") for name in found)
    assert 0 < found["system/system_memory_usage_percentage"] < 100
    assert load.sample(104.0) == {}
    assert load.sample(105.0).keys() == found.keys()


@pytest.mark.parametrize(("text", "asked"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_only_who_asks_gets_them(monkeypatch, text, asked):
    monkeypatch.setenv(machine_load.SWITCH, text)
    assert machine_load.wanted() is asked


@pytest.mark.parametrize("missing", [False, True])
def test_what_cannot_be_sampled_is_said_and_stops_nothing(monkeypatch, caplog, missing):
    monkeypatch.setenv(machine_load.SWITCH, "true")
    monkeypatch.setenv(machine_load.INTERVAL, "5" if missing else "ten")
    if missing:
        monkeypatch.setitem(sys.modules, "mlflow.system_metrics.system_metrics_monitor", None)
    assert machine_load.asked_for(100.0) is None
    assert f"no system metrics, though {machine_load.SWITCH} asks for them" in caplog.text
