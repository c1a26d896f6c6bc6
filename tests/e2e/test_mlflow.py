"""The tracker against a real `mlflow server` on loopback, killed and started again, and against nobody at all."""

import json
import math
import socket
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.track import writer
from keel_lab.track.destination import experiment_url
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.trial import Trial
from tests.command_line import TOYS, call
from tests.mlflow_server import Cursor, Server

STEPS = 60
VERDICT = Verdict(Status.DIVERGED, Mode.IRRECOVERABLE, 41, 40, 0.02, learned=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))  # not started: the first test has to do without
    yield server
    server.kill()


def trial(seed):
    settings = {"model": ModelSettings(), "data": None, "train": TrainSettings(), "schedule": RampSchedule(steps=STEPS)}
    it = Trial(architecture="post_ln", options={}, blocks=16, init_seed=seed, data_seed=seed, **settings)
    return PlannedTrial(it, Cell("post_ln", 16), {"seed": seed}, 12345)


def loss(planned, step):
    return 5.0 - step / 100 + planned.trial.init_seed


def curve_of(planned):
    curve = Curve()
    for step in range(1, STEPS + 1):
        curve.append(Step(step, loss(planned, step), lr_at(planned.trial.schedule, step), 3.1, math.nan), 0.01)
    return curve


def result_of(planned):
    execution = {"torch": "2.13.0", "started_at": time.time() - 5, "finished_at": time.time()}
    return TrialResult(planned.trial.id, Outcome.DIVERGED, STEPS, VERDICT, {}, {}, {"unigram_entropy": 3.0}, execution)


def live_of(planned, first, last):
    points = [
        (step, round(time.time() * 1000), {"loss": loss(planned, step), "lr": lr_at(planned.trial.schedule, step)})
        for step in range(first, last + 1)
    ]
    return Progress(planned.trial.id, last, 1.0, "healthy", points)


class Sweep:
    """Some trials of one sweep, and what the server says of them by REST."""

    def __init__(self, name, root, count=4):
        self.trials = tuple(trial(seed) for seed in range(count))
        self.stored = SimpleNamespace(
            name=name, spec={"name": name, "question": "How far?"}, trials=self.trials, data=None
        )
        self.root, self.cursor = root, Cursor()
        self.results = {planned.trial.id: result_of(planned) for planned in self.trials}

    def open(self, uri, **limits):
        return MlflowTracker(self.stored, str(self.root), uri, self.cursor, **limits)

    def record(self, tracker, planned):
        tracker.record(planned, self.results[planned.trial.id], VERDICT, curve_of(planned))

    def load(self, trial_id):
        (planned,) = [planned for planned in self.trials if planned.trial.id == trial_id]
        return self.results[trial_id], VERDICT, curve_of(planned)

    def runs(self, server):
        name = self.stored.name
        answer = json.loads(server.get(f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}"))
        body = {"experiment_ids": [answer["experiment"]["experiment_id"]], "filter": 'tags.kind = "trial"'}
        return server.post("/api/2.0/mlflow/runs/search", body).get("runs", [])

    def history(self, server, run, key):
        path = f"/api/2.0/mlflow/metrics/get-history?run_id={run['info']['run_id']}&metric_key={key}"
        return [(int(metric["step"]), metric["value"]) for metric in json.loads(server.get(path)).get("metrics", [])]

    def assert_complete(self, server):
        runs = self.runs(server)
        by_name = {planned.name: planned for planned in self.trials}
        assert sorted(run["info"]["run_name"] for run in runs) == sorted(by_name)
        for run in runs:
            planned = by_name[run["info"]["run_name"]]
            assert run["info"]["status"] == "FINISHED"
            assert {item["key"]: item["value"] for item in run["data"]["params"]}["verdict"] == "diverged"
            expected = [(step, pytest.approx(loss(planned, step))) for step in range(1, STEPS + 1)]
            assert sorted(self.history(server, run, "train/loss")) == expected
            for metric in run["data"]["metrics"]:
                steps = Counter(step for step, _ in self.history(server, run, metric["key"]))
                assert set(steps.values()) == {1}, metric["key"]
            files = json.loads(server.get(f"/api/2.0/mlflow/artifacts/list?run_id={run['info']['run_id']}"))["files"]
            assert {item["path"] for item in files} == {"curve.parquet", "evidence.json"}


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(writer, "BACK_OFF", (0.2,))


def test_a_sweep_that_ran_without_its_server_is_delivered_by_the_next_run(server, tmp_path, quick):
    sweep = Sweep("delivered-later", tmp_path)
    server.kill()
    first = sweep.open(server.uri)
    for planned in sweep.trials:
        first.started(planned)
        first.live([live_of(planned, 1, 30)])
        sweep.record(first, planned)
    first.summary("# report", [], {})
    (sentence,) = first.close()
    assert sentence == (
        f"4 runs and the summary were not delivered to {server.uri}: connection refused; "
        f"`keel-lab sync delivered-later --tracking {server.uri}` delivers them"
    )
    server.up()
    second = sweep.open(server.uri)
    second.deliver_missing(sweep.load, [planned.trial.id for planned in sweep.trials])
    assert second.close() == ()
    sweep.assert_complete(server)


def test_a_server_killed_in_the_middle_and_started_again(server, tmp_path, quick):
    sweep = Sweep("killed-in-the-middle", tmp_path)
    one, two, three, four = sweep.trials
    server.up()
    tracker = sweep.open(server.uri)
    for planned in (one, two):
        tracker.started(planned)
    tracker.live([live_of(one, 1, 20), live_of(two, 1, 10)])
    sweep.record(tracker, one)
    wait_until(lambda: tracker._outbox.delivered)

    stop = threading.Event()  # news goes on through the kill, so that it falls into the middle of requests

    def train():
        step = 11
        while not stop.is_set():
            tracker.live([live_of(two, step, step)])
            step = min(step + 1, 30)
            time.sleep(0.01)

    training = threading.Thread(target=train)
    training.start()
    server.kill()
    tracker.started(three)
    tracker.live([live_of(three, 1, 30)])
    sweep.record(tracker, two)
    wait_until(lambda: tracker._outbox.away is not None)
    assert "refused" in tracker._outbox.away
    sweep.record(tracker, three)
    stop.set()
    training.join()
    server.start()
    tracker.started(four)
    tracker.live([live_of(four, 1, 40)])
    sweep.record(tracker, four)
    assert tracker.close() == ()
    sweep.assert_complete(server)


def test_a_server_that_dies_between_two_requests_of_one_record(server, tmp_path, quick, monkeypatch):
    """The points are there, the params and artifacts are not: the next try adds what is missing, and only that."""
    from mlflow.tracking import MlflowClient

    server.up()
    sweep = Sweep("between-two-requests", tmp_path, count=1)
    real, failed = MlflowClient.log_artifacts, []

    def dies_first(self, *arguments):
        if not failed:
            failed.append(True)
            raise ConnectionResetError(104, "Connection reset by peer")
        return real(self, *arguments)

    monkeypatch.setattr(MlflowClient, "log_artifacts", dies_first)
    tracker = sweep.open(server.uri)
    sweep.record(tracker, sweep.trials[0])
    assert tracker.close() == ()
    assert failed
    sweep.assert_complete(server)


def test_what_the_ui_asks_the_server(server, tmp_path):
    server.up()
    sweep = Sweep("seen-in-the-ui", tmp_path)
    tracker = sweep.open(server.uri)
    for planned in sweep.trials:
        sweep.record(tracker, planned)
    tracker.summary("# the report", [], {"max_lr": 0.02})
    assert tracker.close() == ()
    (run, *_) = runs = sweep.runs(server)
    assert len(runs) == 4
    assert tracker.where() == f"MLflow: {experiment_url(server.uri, run['info']['experiment_id'])}"
    body = {"experiment_ids": [run["info"]["experiment_id"]], "filter": "params.architecture = 'post_ln'"}
    assert len(server.post("/api/2.0/mlflow/runs/search", body)["runs"]) == 4
    body |= {"filter": "metrics.`final/max_lr` > 0.01 and tags.verdict = 'diverged'", "max_results": 2}
    assert len(server.post("/api/2.0/mlflow/runs/search", body)["runs"]) == 2
    body = {"experiment_ids": body["experiment_ids"], "filter": "tags.kind = 'summary'"}
    (summary,) = server.post("/api/2.0/mlflow/runs/search", body)["runs"]
    report = server.get(f"/get-artifact?path=report.md&run_uuid={summary['info']['run_id']}")
    assert report == b"# the report"


def test_sync_rebuilds_a_sweep_on_an_empty_server(server, tmp_path, monkeypatch, capsys):
    """A sweep that ran without MLflow, delivered by the command line; a second time changes nothing."""
    server.up()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toys.yaml").write_text(TOYS.replace("name: toys", "name: rebuilt"))
    assert call(capsys, "run", "toys.yaml", "--executor", "local", "--tracking", "off").code == 1

    def seen():
        answer = json.loads(server.get("/api/2.0/mlflow/experiments/get-by-name?experiment_name=rebuilt"))
        body = {"experiment_ids": [answer["experiment"]["experiment_id"]]}
        runs = server.post("/api/2.0/mlflow/runs/search", body)["runs"]
        return {run["info"]["run_name"]: (run["info"]["status"], run["data"]) for run in runs}

    first = call(capsys, "sync", "rebuilt", "--tracking", server.uri)
    assert first == (0, f"sweep rebuilt at {server.uri}: 1 finished, 1 failed and the summary\n", first.err)
    before = seen()
    assert {name: status for name, (status, _) in before.items()} == {
        "toy-b4-s0": "FINISHED",
        "toy_crash-b4-s0": "FAILED",
        "summary": "FINISHED",
    }
    assert call(capsys, "sync", "rebuilt", "--tracking", server.uri).out == first.out
    assert seen() == before


def test_nobody_listens(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else can take the port
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}"
        sweep = Sweep("nobody-listens", tmp_path)
        tracker = sweep.open(uri)
        tracker.started(sweep.trials[0])
        tracker.live([live_of(sweep.trials[0], 1, 10)])
        for planned in sweep.trials:
            sweep.record(tracker, planned)
        (sentence,) = tracker.close()
    assert sentence.startswith(f"4 runs were not delivered to {uri}: connection refused; ")


def test_a_server_that_accepts_and_never_answers_holds_up_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3600")  # a call that waited for an answer would hang this test
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sweep = Sweep("never-answers", tmp_path, count=1)
        tracker = sweep.open(uri, grace=1.0)
        with silent.accept()[0]:  # the writer waits for its answer now
            tracker.started(sweep.trials[0])
            tracker.live([live_of(sweep.trials[0], 1, 10)])
            sweep.record(tracker, sweep.trials[0])
            tracker.summary("# report", [], {})
            (sentence,) = tracker.close()
            assert tracker._writer.is_alive()  # abandoned, not waited for
    assert sentence == (
        f"1 run and the summary were not delivered to {uri}: no answer in time; "
        f"`keel-lab sync never-answers --tracking {uri}` delivers them"
    )
