"""Where tracking can go: a real PostgreSQL (Debian's), and a server that asks who is there."""

from __future__ import annotations

import os

import psycopg
import pytest

from benchmarks.postgres import PostgresServer
from keel_lab.errors import UsageError
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.usable import refuse_unusable
from tests.mlflow_server import Cursor, Server, collapse, ramp, sweep_of


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer() as server:
        yield server.url("postgres")


def deliver(name, root, uri, **limits):
    trials = [ramp("keel", blocks, steps=60) for blocks in (2, 4)]
    tracker = MlflowTracker(
        sweep_of(name, trials), str(root), uri, Cursor(), **{"patience": 300, "grace": 120, **limits}
    )
    for planned in trials:
        tracker.record(planned, *collapse(planned, 40))
    tracker.summary("# report", [], {"diverged": 2.0})
    return tracker.close()


def assert_there(name, uri):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(name)
    assert all(len(value) <= 5000 for value in experiment.tags.values())
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"keel-b2-s0", "keel-b4-s0", "summary"}
    assert runs["keel-b2-s0"].data.tags["nonfinite.loss"] == "59: inf, 60: nan"
    assert len(client.get_metric_history(runs["keel-b2-s0"].info.run_id, "train/loss")) == 58


def test_postgresql(postgres, tmp_path):
    for _ in range(2):  # a second time finds the runs of another storage, and leaves them alone
        assert deliver("in-postgres", tmp_path, postgres) == ()
    from mlflow.tracking import MlflowClient

    client = MlflowClient(postgres)
    experiment = client.get_experiment_by_name("in-postgres")
    assert len(client.search_runs([experiment.experiment_id])) == 6
    assert deliver("alone-in-postgres", tmp_path, postgres) == ()
    assert_there("alone-in-postgres", postgres)


def test_a_wrong_password_is_one_sentence_without_it(postgres, tmp_path):
    wrong = postgres.replace("secret%20word", "guessed%20word")
    (sentence,) = deliver("refused", tmp_path, wrong, grace=5)
    assert "guessed" not in sentence
    assert sentence.startswith("2 runs and the summary were not delivered to postgresql://lab:***@127.0.0.1:")
    assert "\n" not in sentence
    for broken, why in (
        (wrong, "it does not accept this user and password: correct them in the URI"),
        (f"{postgres}-not-there", "there is no such database: create it, or correct the URI"),
    ):
        with pytest.raises(UsageError, match=why) as refused:
            refuse_unusable(broken, "refused")
        assert "guessed" not in str(refused.value)


def test_a_user_who_may_only_read_is_refused_before_anything_runs(postgres, tmp_path):
    assert deliver("readable", tmp_path, postgres) == ()
    refuse_unusable(postgres, "readable")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reads'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = postgres.replace("lab:secret%20word", "reader:reads")
    with pytest.raises(UsageError, match="it may not be written: allow it, or name another place"):
        refuse_unusable(reader, "readable")
    (sentence,) = deliver("readable", tmp_path, reader)
    assert ": it may not be written: allow it, or name another place with --tracking" in sentence


def test_a_server_that_asks_for_user_and_password(tmp_path, monkeypatch):
    settings = tmp_path / "auth.ini"
    settings.write_text(
        "[mlflow]\ndefault_permission = READ\nadmin_username = lab\nadmin_password = correct-horse-battery\n"
        f"database_uri = sqlite:///{tmp_path}/auth.db\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    environment = {"MLFLOW_AUTH_CONFIG_PATH": str(settings), "MLFLOW_FLASK_SERVER_SECRET_KEY": os.urandom(8).hex()}
    server = Server(tmp_path, more=("--app-name", "basic-auth"), environment=environment)
    server.start()
    try:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "lab")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "correct-horse-battery")
        assert deliver("asked", tmp_path, server.uri) == ()
        assert_there("asked", server.uri)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
        (sentence,) = deliver("asked", tmp_path, server.uri)
        assert "it does not let us in (HTTP 401): set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME" in sentence
        with pytest.raises(UsageError, match="it does not let us in"):
            refuse_unusable(server.uri, "asked")
    finally:
        server.kill()
