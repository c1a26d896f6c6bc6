"""`sync` and `ui` on SQLite: what is missing comes back, and a second call changes nothing."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.command_line import TOYS, call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synced")
    (folder / "toys.yaml").write_text(TOYS)
    return folder


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("KEEL_LAB_STORAGE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def client(folder):
    """MLflow on the database that the first `sync` makes."""

    def open_client():
        from mlflow.tracking import MlflowClient

        return MlflowClient(f"sqlite:///{folder}/keel-lab-store/mlflow.db")

    return open_client


def runs(client):
    experiment = client().get_experiment_by_name("toys")
    return {run.info.run_name: run for run in client().search_runs([experiment.experiment_id])}


def content(client):
    return {
        name: (run.info.run_id, run.info.status, run.data.params, run.data.tags, run.data.metrics)
        for name, run in runs(client).items()
    }


def test_sync_delivers_a_sweep_that_ran_without_mlflow(folder, client, capsys):
    assert call(capsys, "run", "toys.yaml", "--executor", "local", "--tracking", "off").code == 1
    assert not (folder / "keel-lab-store" / "mlflow.db").exists()
    ended = call(capsys, "sync", "toys")
    assert ended.code == 0, ended.err
    uri = f"sqlite:///{folder}/keel-lab-store/mlflow.db"
    assert ended.out == f"sweep toys at {uri}: 1 finished, 1 failed and the summary\n"
    assert {name: run.info.status for name, run in runs(client).items()} == {
        "toy-b4-s0": "FINISHED",
        "toy_crash-b4-s0": "FAILED",
        "summary": "FINISHED",
    }
    assert runs(client)["toy_crash-b4-s0"].data.tags["failure"] == "crash"


def test_sync_again_changes_nothing(client, capsys):
    before = content(client)
    told = json.loads(call(capsys, "sync", "toys", "--json").out)
    assert {key: told[key] for key in ("finished", "failed", "stopped", "undelivered")} == {
        "finished": 1,
        "failed": 1,
        "stopped": 0,
        "undelivered": [],
    }
    assert content(client) == before


def test_sync_brings_a_deleted_run_back(client, capsys):
    lost = runs(client)["toy-b4-s0"]
    client().delete_run(lost.info.run_id)
    assert "toy-b4-s0" not in runs(client)
    assert call(capsys, "sync", "toys").code == 0
    again = runs(client)["toy-b4-s0"]
    assert again.data.params == lost.data.params
    assert again.data.metrics == lost.data.metrics


def test_sync_rebuilds_the_sweep_in_an_empty_database(folder, client, capsys):
    before = {name: run.data.params for name, run in runs(client).items()}
    ended = call(capsys, "sync", "toys", "--tracking", f"sqlite:///{folder}/other.db")
    assert ended.code == 0, ended.err
    from mlflow.tracking import MlflowClient

    other = MlflowClient(f"sqlite:///{folder}/other.db")
    experiment = other.get_experiment_by_name("toys")
    found = other.search_runs([experiment.experiment_id])
    assert {run.info.run_name: run.data.params for run in found} == before


def test_a_server_that_is_away_is_said_and_exits_with_3(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ended = call(capsys, "sync", "toys", "--tracking", uri)
    assert ended.code == 3
    assert f"delivered to {uri}: connection refused" in ended.err


def _hears_ctrl_c():
    """A shell starts its background jobs with SIGINT ignored, which children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ui_shows_the_sweep_on_loopback_until_ctrl_c(folder, client):
    command = [sys.executable, "-m", "keel_lab", "ui", "toys", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    page = subprocess.Popen(command, **pipes, text=True, cwd=folder, preexec_fn=_hears_ctrl_c)
    try:
        url = page.stdout.readline().strip()
        base, _, rest = url.partition("/#/")
        assert base.startswith("http://127.0.0.1:")
        experiment = client().get_experiment_by_name("toys").experiment_id
        assert rest.startswith(f"experiments/{experiment}/runs?")
        assert rest.endswith("&viewStateShareKey=keel-lab-curves")
        with urllib.request.urlopen(f"{base}/health", timeout=10) as answer:
            assert answer.read() == b"OK"
        page.send_signal(signal.SIGINT)
        out, err = page.communicate(timeout=60)
    finally:
        if page.poll() is None:
            page.send_signal(signal.SIGTERM)
            page.wait(timeout=60)
    assert (page.returncode, out, err) == (0, "", "Ctrl-C ends it\n")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{base}/health", timeout=10)


def test_ui_of_a_server_opens_its_page(capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    ended = call(capsys, "ui", "--tracking", "http://mlflow.example:5000/")
    assert ended == (0, "http://mlflow.example:5000\n", "")
    assert opened == ["http://mlflow.example:5000"]


def test_ui_says_what_is_wrong(folder, capsys):
    missing = call(capsys, "ui", "toy", "--no-browser")
    assert missing.code == 2
    assert "sweep 'toy' is not in MLflow" in missing.err
    assert "nor is it in storage: run it, or name its --storage" in missing.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        busy = call(capsys, "ui", "toys", "--no-browser", "--port", port)
    assert busy.code == 2
    assert (
        busy.err
        == f"error: --port: found {port}, which is in use on 127.0.0.1; give another one, or none for a free one\n"
    )
    assert call(capsys, "ui", "toys", "--tracking", "off").code == 2
