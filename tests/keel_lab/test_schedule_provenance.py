"""Which code ran, read off real git checkouts; and the machine's load, as MLflow names it."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from keel_lab.curve import Step
from keel_lab.errors import UsageError
from keel_lab.schedule import machine_load, provenance, worker
from keel_lab.schedule.executor import Progress, Task
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.session import Session
from keel_lab.store.root import Root
from tests.command_line import TOYS, call
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


def test_a_git_that_hangs_delays_nothing(tmp_path, monkeypatch):
    """As on a network file system that is away: it does not even end when it is told to, nor do its children."""
    programs = tmp_path / "bin"
    programs.mkdir()
    os.mkfifo(tmp_path / "never")
    hangs = programs / "git"
    hangs.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ >> {tmp_path}/pids\nexec cat {tmp_path}/never\n")
    hangs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(provenance, "GIT_SECONDS", 0.5)
    found = provenance.provenance.__wrapped__()
    assert found["commit_unknown"] == "git did not answer within 0.5 s"
    assert found["versions"]["keel_lab"]
    assert "commit" not in found
    (asking,) = [thread for thread in threading.enumerate() if thread.name == "keel-lab-git"]
    while asking.is_alive():  # it asks git several things
        for pid in (tmp_path / "pids").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        asking.join(0.05)


def test_the_machine_is_sampled_when_a_sample_is_due(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    load = machine_load.MachineLoad(5.0, 100.0)
    found = load.sample(100.0)
    assert all(name.startswith("system/") for name in found)
    assert 0 < found["system/system_memory_usage_percentage"] < 100
    assert load.sample(104.0) == {}
    assert load.sample(105.0).keys() == found.keys()
    assert not list(tmp_path.iterdir())  # such as MLflow's database


@pytest.mark.parametrize(
    ("text", "every", "seconds"),
    [("true", "5", 5.0), ("1", "", 10.0), ("True", "0.5", 0.5), ("false", "5", None), ("", "ten", None)],
)
def test_only_who_asks_gets_them(monkeypatch, text, every, seconds):
    monkeypatch.setenv(machine_load.SWITCH, text)
    monkeypatch.setenv(machine_load.INTERVAL, every)
    assert machine_load.wanted_every() == seconds


@pytest.mark.parametrize("every", ["ten", "0", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_refused(monkeypatch, every):
    monkeypatch.setenv(machine_load.SWITCH, "true")
    monkeypatch.setenv(machine_load.INTERVAL, every)
    with pytest.raises(UsageError, match=f"{machine_load.INTERVAL}: found '{every}'; a number of seconds above 0"):
        machine_load.wanted_every()


def test_what_cannot_be_sampled_is_said_and_stops_nothing(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "mlflow.system_metrics.system_metrics_monitor", None)
    assert machine_load.sampler(5.0, 100.0) is None
    assert f"no system metrics, though {machine_load.SWITCH} asks for them" in caplog.text


def test_the_driver_tells_its_workers_whatever_their_environment_says(monkeypatch, tmp_path):
    """A worker of a running cluster has the environment of `ray start`, not that of the sweep's user."""
    trial, root = toy_trial("toy"), Root.open(tmp_path)
    monkeypatch.setenv(machine_load.SWITCH, "true")
    for every, there in ((None, False), (5.0, True)):
        heard: list[Progress] = []
        mailbox = LocalMailbox()
        mailbox.hear = lambda news, heard=heard: heard.append(news) or ()
        session = Session(replace(toy_task(trial, root), sample_every=every), root, mailbox, tmp_path)
        session.facts(unigram_entropy=3.0)
        session.step(Step(1, 5.0, 1e-4, 3.0, 1.0))
        names = {name for news in heard for _, _, values in news.points for name in values}
        assert any(name.startswith("system/") for name in names) is there


def test_a_sweep_hands_what_its_user_asked_for_to_every_task(monkeypatch, tmp_path, capsys):
    asked, attempt = [], worker.attempt

    def noted(task, mailbox):
        asked.append(task.sample_every)
        return attempt(task, mailbox)

    monkeypatch.setattr(worker, "attempt", noted)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toys.yaml").write_text(TOYS.replace("[toy_crash, toy]", "[toy]"))
    monkeypatch.setenv(machine_load.SWITCH, "true")
    monkeypatch.setenv(machine_load.INTERVAL, "7")
    words = ("run", "toys.yaml", "--executor", "local", "--tracking", "off", "--storage", str(tmp_path / "store"))
    assert call(capsys, *words).code == 0
    assert asked == [7.0]
