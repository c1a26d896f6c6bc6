"""A sweep while people look at it in MLflow's pages, and a server that asks for a token."""

from __future__ import annotations

import json
import threading
import urllib.error

import pytest

from keel_lab.track import writer
from tests.command_line import TOYS, call
from tests.mlflow_line import Line
from tests.mlflow_server import Server

STEPS = 60
SWEEP = TOYS.replace("[toy_crash, toy]\n", "[toy]\n  seed: [0, 1, 2, 3]\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """With an empty database, which is made by its start."""
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def _there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("KEEL_LAB_STORAGE", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.02")  # so that a trial lives for more than one batch of live points
    monkeypatch.setattr(writer, "BACK_OFF", (0.1,))


def write(tmp_path, name, seeds=2):
    text = SWEEP.replace("name: toys", f"name: {name}").replace("[0, 1, 2, 3]", str(list(range(seeds))))
    (tmp_path / "toys.yaml").write_text(text)


def experiment(server, name):
    answer = server.get(f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}")
    return json.loads(answer)["experiment"]["experiment_id"]


def runs(server, name):
    body = {"experiment_ids": [experiment(server, name)], "filter": "tags.kind = 'trial'"}
    return server.post("/api/2.0/mlflow/runs/search", body).get("runs", [])


def history(server, run, key="train/loss"):
    path = f"/api/2.0/mlflow/metrics/get-history?run_id={run['info']['run_id']}&metric_key={key}"
    return json.loads(server.get(path)).get("metrics", [])


def assert_complete(server, name, seeds=2):
    found = runs(server, name)
    assert [run["info"]["status"] for run in found] == ["FINISHED"] * seeds
    for run in found:
        points = sorted(history(server, run), key=lambda point: (int(point["timestamp"]), int(point["step"])))
        assert [int(point["step"]) for point in points] == list(range(1, STEPS + 1))


class Reader(threading.Thread):
    """Somebody who keeps the sweep's pages open and reloads them: what the pages ask the server, again and again."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.server, self.name_of_sweep, self.over = server, name, threading.Event()
        self.looks, self.errors = 0, []

    def run(self):
        while not self.over.is_set():
            try:
                self.server.get("/")
                for run in runs(self.server, self.name_of_sweep):
                    self.server.get(f"/api/2.0/mlflow/runs/get?run_id={run['info']['run_id']}")
                    history(self.server, run)
                    self.looks += 1
            except urllib.error.HTTPError as error:
                if error.code != 404:  # of a sweep that has not begun
                    self.errors.append(f"{error.code}: {error.read()[:300]}")


@pytest.mark.parametrize("way", ["file", "server"])
def test_no_lock_error_while_the_pages_are_open_and_a_sweep_writes(server, tmp_path, capsys, way):
    name = f"watched-{way}"
    write(tmp_path, name, seeds=4)
    uri = server.store if way == "file" else server.uri
    readers = [Reader(server, name) for _ in range(2)]
    for reader in readers:
        reader.start()
    ended = call(capsys, "run", "toys.yaml", "--executor", "local", "--tracking", uri)
    for reader in readers:
        reader.over.set()
        reader.join(60)
    assert ended.code == 0
    assert "deliver" not in ended.err
    assert [reader.errors for reader in readers] == [[], []]
    assert min(reader.looks for reader in readers) > 0
    for told in (ended.err, (server.folder / "server.log").read_text()):
        assert "locked" not in told
    assert_complete(server, name, seeds=4)


NOT_LET_IN = (
    "it does not let us in (HTTP 401): set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD, to what it accepts"
)


def test_a_server_that_asks_for_a_token(server, tmp_path, capsys, monkeypatch):
    gate = Line(server)
    gate.token = "right"
    write(tmp_path, "tokens")
    words = ("run", "toys.yaml", "--executor", "local", "--tracking", gate.uri)
    for wrong in (None, "wrong"):
        if wrong is not None:
            monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", wrong)
        refused = call(capsys, *words)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == f"error: MLflow at {gate.uri}: {NOT_LET_IN}; --tracking off does without it\n"
        assert not (tmp_path / "keel-lab-store" / "sweeps").exists()
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "right")
    ended = call(capsys, *words)
    assert (ended.code, "deliver" in ended.err) == (0, False), ended.err
    assert_complete(server, "tokens")
    gate.close()


def test_a_token_that_is_revoked_in_the_middle_stops_no_training(server, tmp_path, capsys, monkeypatch):
    gate = Line(server)
    gate.token = "right"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "right")

    def revoke(number):
        if number == 12:  # some way into the first trial's delivery
            gate.token = "another"

    gate.fault = revoke
    write(tmp_path, "revoked")
    ended = call(capsys, "run", "toys.yaml", "--executor", "local", "--tracking", gate.uri)
    assert ended.code == 0
    (sentence,) = [line for line in ended.err.splitlines() if "not delivered" in line]
    assert NOT_LET_IN in sentence
    assert f"; `keel-lab sync revoked --tracking {gate.uri}` delivers " in sentence
    assert call(capsys, "sync", "revoked", "--tracking", gate.uri).code == 2
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "another")
    assert call(capsys, "sync", "revoked", "--tracking", gate.uri).code == 0
    assert_complete(server, "revoked")
    gate.close()
