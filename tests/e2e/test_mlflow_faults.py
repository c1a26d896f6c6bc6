"""A real `mlflow server` behind a line that is slow, answers 500s, or loses answers after the work was done."""

import json
import time
from collections import Counter

import pytest

from keel_lab.schedule.executor import Progress
from keel_lab.track import writer
from keel_lab.track.mlflow_tracker import MlflowTracker
from tests.mlflow_line import Line
from tests.mlflow_server import Cursor, Server, collapse, ramp, sweep_of


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("slow", lambda number: "slow"),
        ("down-with-500s-for-a-while", lambda number: "500" if 4 <= number < 25 else None),
        ("every-third-answer-lost-for-a-while", lambda number: "lost" if number % 3 == 0 and number < 60 else None),
    ],
)
def test_all_is_delivered_once_and_in_order(server, tmp_path, monkeypatch, name, fault):
    monkeypatch.setattr(writer, "BACK_OFF", (0.05,))
    monkeypatch.setattr("keel_lab.track.outbox.TRIES", 100)  # so many lost answers in a row would be refused otherwise
    trials = [ramp("keel", blocks, steps=60) for blocks in (2, 4)]
    line = Line(server)
    line.fault = fault
    tracker = MlflowTracker(sweep_of(name, trials), str(tmp_path), line.uri, Cursor(), patience=240, grace=60)
    stored = {planned.trial.id: collapse(planned, 40) for planned in trials}
    for planned in trials:
        tracker.started(planned)
        _, _, curve = stored[planned.trial.id]
        points = [(one.step, 1000 * one.step, {"loss": one.loss}) for one in curve.steps[:20]]
        tracker.live([Progress(planned.trial.id, 20, 1.0, "healthy", points)])
    wait_until(lambda: next(line.count) > 10)
    for planned in trials:
        tracker.record(planned, *stored[planned.trial.id])
    wait_until(lambda: len(tracker._outbox.delivered) == len(trials))  # `close` would not wait for one that is away
    assert tracker.close() == ()
    line.listener.shutdown()

    answer = json.loads(server.get(f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}"))
    body = {"experiment_ids": [answer["experiment"]["experiment_id"]], "filter": "tags.kind = 'trial'"}
    runs = server.post("/api/2.0/mlflow/runs/search", body)["runs"]
    assert sorted(run["info"]["run_name"] for run in runs) == sorted(planned.name for planned in trials)
    for run in runs:
        assert run["info"]["status"] == "FINISHED"
        tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
        assert tags["nonfinite.loss"] == "59: inf, 60: nan"
        path = f"/api/2.0/mlflow/metrics/get-history?run_id={run['info']['run_id']}&metric_key=train/loss"
        steps = [int(metric["step"]) for metric in json.loads(server.get(path))["metrics"]]
        assert sorted(steps) == list(range(1, 59))
        assert set(Counter(steps).values()) == {1}


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
