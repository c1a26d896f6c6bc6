"""What could never be written to is refused before anything runs, with the remedy; what is only away is not."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from keel_lab.errors import UsageError
from keel_lab.track.reason import understood
from keel_lab.track.usable import refuse_unusable
from tests.command_line import TOYS, call

OLD = "bd07f7e963c5"  # a schema of MLflow 2: runs had no index by their experiment yet
NO_MLFLOW = "something answers there, but no MLflow server: correct --tracking or MLFLOW_TRACKING_URI"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A database as MLflow's own migrations left it then, in a folder of its own."""
    import sqlalchemy
    from alembic import command
    from mlflow.store.db.utils import _get_alembic_config
    from mlflow.store.tracking.dbmodels.initial_models import Base

    path = tmp_path_factory.mktemp("old") / "mlflow.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    engine.dispose()
    command.upgrade(_get_alembic_config(f"sqlite:///{path}"), OLD)
    return path


def refusal(uri):
    with pytest.raises(UsageError) as refused:
        refuse_unusable(uri, "toys")
    text = str(refused.value)
    begin, end = f"MLflow at {uri}: ", "; --tracking off does without it"
    assert text.startswith(begin)
    assert text.endswith(end)
    return text.removeprefix(begin).removesuffix(end)


def test_an_old_schema_is_refused_before_anything_runs_and_the_remedy_is_one(old, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mlflow.db"
    shutil.copy(old, path)
    (tmp_path / "toys.yaml").write_text(TOYS.replace("[toy_crash, toy]", "[toy]"))
    words = ("run", "toys.yaml", "--executor", "local", "--tracking", f"sqlite:///{path}")
    refused = call(capsys, *words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"error: MLflow at sqlite:///{path}: its tables are those of an older MLflow (schema {OLD}): back it up and "
        f"run `mlflow db upgrade sqlite:///{path}`, or name another place with --tracking or MLFLOW_TRACKING_URI; "
        "--tracking off does without it\n"
    )
    assert not (tmp_path / "keel-lab-store").exists()
    from click.testing import CliRunner
    from mlflow.cli import cli

    assert CliRunner().invoke(cli, ["db", "upgrade", f"sqlite:///{path}"]).exit_code == 0
    ended = call(capsys, *words)
    assert (ended.code, "deliver" in ended.err) == (0, False)


def test_a_schema_that_this_mlflow_does_not_know_is_of_another_one(old, tmp_path):
    path = tmp_path / "mlflow.db"
    shutil.copy(old, path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0123456789ab'")
    said = refusal(f"sqlite:///{path}")
    assert said.startswith("its tables are those of another MLflow (schema 0123456789ab), most likely a newer one: ")


def test_tables_from_before_schemas_had_names_are_old(tmp_path):
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE experiments (name)")
        database.execute("CREATE TABLE runs (name)")
    assert refusal(f"sqlite:///{path}").startswith("its tables are those of an older MLflow (schema unnamed): ")


def test_what_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but longer than the first bytes of one\n")
    assert refusal(f"sqlite:///{path}").startswith("it is no SQLite database: ")
    assert refusal(f"sqlite:///{path}/mlflow.db").startswith(f"{path} is no folder in which files may be written: ")


def test_a_file_that_is_not_there_yet_and_one_that_somebody_writes_to_are_fine(tmp_path):
    refuse_unusable(f"sqlite:///{tmp_path}/new/folder/mlflow.db", "toys")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE somebodys (name)")
        database.execute("BEGIN EXCLUSIVE")
        refuse_unusable(f"sqlite:///{path}", "toys")


class Answers:
    """An HTTP server that gives everybody the same answer."""

    def __init__(self, status, body, kind="text/html"):
        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *words):
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.listener.server_port}"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        return self.uri

    def __exit__(self, *error):
        self.listener.shutdown()
        self.listener.server_close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answers(200, b"<html>It works!</html>"), NO_MLFLOW),
        (Answers(200, b'{"ok": true}', "application/json"), NO_MLFLOW),
        (Answers(404, b"<html>not found</html>"), NO_MLFLOW),
        (Answers(404, b'{"detail": "Not Found"}', "application/json"), NO_MLFLOW),
        (Answers(405, b"no"), NO_MLFLOW),
        (Answers(401, b"no"), "it does not let us in (HTTP 401): set MLFLOW_TRACKING_TOKEN, or "),
        (Answers(403, b"no"), "it forbids it (HTTP 403): ask for permission to edit there, or "),
        (Answers(403, b"Invalid Host header"), "it does not know itself by this name (HTTP 403): start it with "),
    ],
)
def test_what_answers_and_is_no_mlflow_that_lets_us_in_is_refused(answer, said):
    with answer as uri:
        assert refusal(uri).startswith(said)


def test_what_is_away_is_not_refused():
    with Answers(503, b"in a moment") as uri:
        refuse_unusable(uri, "toys")
    refuse_unusable(uri, "toys")  # nobody listens any more
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        refuse_unusable(f"postgresql://lab@127.0.0.1:{taken.getsockname()[1]}/lab", "toys")


def test_a_driver_that_is_not_installed_is_named():
    said = refusal("mysql://lab@127.0.0.1:1/lab")
    assert said == "the module MySQLdb that it needs is not installed: pip install mysqlclient"


def test_an_mlflow_that_has_no_such_experiment_is_one():
    body = b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}'
    with Answers(404, body, "application/json") as uri:
        refuse_unusable(uri, "toys")


@pytest.mark.parametrize(
    ("words", "text", "hopeless", "waits"),
    [
        ("(sqlite3.OperationalError) database or disk is full", "no space is left on its disk: free some", False, True),
        ("(sqlite3.OperationalError) database is locked", "another program holds it locked", False, True),
        (
            'FATAL:  password authentication failed for user "lab"',
            "it does not accept this user and password: correct them in the URI",
            True,
            False,
        ),
        (  # what MLflow says if it meets one itself
            "Detected out-of-date database schema (found version 0584, but expected dc11). Take a backup of",
            "its tables are those of another MLflow (schema 0584): back it up and run `mlflow db upgrade "
            "sqlite:///x.db`, or, if a newer MLflow wrote it, install that one",
            True,
            False,
        ),
        (
            "Failed to upload /tmp/x/curve.parquet to lab/x: An error occurred (InvalidAccessKeyId) when calling the "
            "PutObject operation: The AWS Access Key Id you provided does not exist in our records.",
            "the object store of its artifacts refuses our keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            True,
            False,
        ),
        ("something new\nin two lines", "something new", False, False),
    ],
)
def test_what_an_error_means(words, text, hopeless, waits):
    assert understood(RuntimeError(words), "sqlite:///x.db") == (text, hopeless, waits)


def test_a_full_disk_in_the_systems_words():
    why = understood(OSError(28, "No space left on device", "/there/curve.parquet"), "http://x")
    assert why == (
        "no space is left on its disk: free some (no space left on device: /there/curve.parquet)",
        False,
        True,
    )
