"""A search mirrored in a real PostgreSQL: while it runs, is killed, and while the server is away, hangs or refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner

from benchmarks.postgres import QUOTED, PostgresServer
from keel_lab.cli import cli
from keel_lab.errors import UsageError
from keel_lab.search import mirror
from keel_lab.store.points import State
from tests.dashboard import states
from tests.search_bench import SEARCH, Bench, asked

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 240  # seconds
STUDY = "bowl: bowl 4 blocks"
SHORT = ("search.points=4", "search.remeasure.best=0")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def database(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """Its name; made for the test."""
    name = f"db_{abs(hash(request.node.name))}"
    server.say(f"create database {name}")
    return name


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Search:
    """`keel-lab run` of a slow bowl, as a process."""

    def __init__(self, folder: Path, url: str, *words: str, sleep: str = "0.02") -> None:
        (folder / "bowl.yaml").write_text(SEARCH)
        command = [sys.executable, "-m", "keel_lab", "run", "bowl.yaml", "--executor", "local", "--tracking", "off"]
        variables = {"PYTHONPATH": str(REPOSITORY), "KEEL_BOWL_SLEEP": sleep, "KEEL_LAB_OPTUNA": url}
        self.output = folder / "output.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*command, "--storage", str(folder / "store"), *words],
                cwd=folder,
                env={**os.environ, **variables},
                stdout=output,
                stderr=output,
            )

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def says(self, words: str) -> bool:
        return words in self.output.read_text()


def trials(url: str, study: str = STUDY) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=study, storage=url).trials


def has(server: PostgresServer, database: str, number: int) -> bool:
    """Whether more trials than that are complete there. Asked by SQL: Optuna would make the tables, too."""
    if not server.say("select 1 from pg_tables where tablename = 'trials'", database):
        return False
    ((found,),) = server.say("select count(*) from trials where state = 'COMPLETE'", database)
    return int(str(found)) > number


def assert_same(url: str, bench: Bench, study: str = STUDY) -> None:
    found, points = trials(url, study), bench.points()
    assert [trial.params for trial in found] == [dict(point.drawn) for point in points]
    assert [trial.state.name.lower() for trial in found] == [str(point.state) for point in points]
    assert [trial.values for trial in found if trial.state.name == "COMPLETE"] == [
        list(point.told) for point in points if point.state is State.COMPLETE
    ]


def assert_no_password(bench: Bench, *texts: str) -> None:
    stored = [file for file in (bench.folder / "store").rglob("*") if file.is_file()]
    assert len(stored) > 10
    for text in (*texts, *(file.read_bytes().decode(errors="replace") for file in stored)):
        assert QUOTED not in text
        assert "secret word" not in text


def test_watched_killed_and_resumed(server, database, bench, monkeypatch) -> None:
    url = server.url(database)
    whole = Bench(bench.folder / "whole")
    whole.folder.mkdir()
    search = Search(bench.folder, url)
    try:
        search.until(lambda: has(server, database, 2))
        seen = states(url)
    finally:
        search.process.send_signal(signal.SIGKILL)
        search.process.wait()
    assert "Running" in seen
    assert len(bench.points()) < 12
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    assert bench.resume().exit_code == 0
    monkeypatch.setenv("KEEL_LAB_OPTUNA", "off")
    assert whole.run().exit_code == 0
    assert asked(bench.points()) == asked(whole.points())
    assert_same(url, bench)
    status = CliRunner().invoke(cli, ["status", "bowl", "--storage", str(bench.folder / "store")])
    assert status.exit_code == 0
    assert_no_password(bench, search.output.read_text(), status.output)


def test_no_database_then_no_server_and_it_catches_up_each_time(server, bench) -> None:
    url = server.url("made_later")
    search = Search(bench.folder, url, "search.points=80", sleep="0.01")
    try:
        search.until(
            lambda: search.says("there is no such database: create it, or correct the URI; the search goes on")
        )
        search.until(lambda: len(bench.points()) > 2)
        server.say("create database made_later")
        search.until(lambda: has(server, "made_later", 2))
        search.until(lambda: search.output.read_text().count("is up to date again") == 1)
        server.stop()
        search.until(lambda: search.output.read_text().count("cannot be written") == 2)
        before = len(bench.points())
        search.until(lambda: len(bench.points()) > before + 1)
        server.start()
        search.until(lambda: has(server, "made_later", before))
        search.process.wait(PATIENCE)
    finally:
        search.process.kill()
        search.process.wait()
    said = search.output.read_text()
    assert search.process.returncode == 0, said
    assert said.count("cannot be written") == said.count("is up to date again") == 2
    assert f"optuna-dashboard 'postgresql://lab:***@127.0.0.1:{server.port}/made_later'" in said
    assert "Traceback" not in said
    assert_same(url, bench)
    assert_no_password(bench, said)


def test_a_server_that_hangs_costs_no_time_and_sync_makes_up_for_it(
    server, database, bench, monkeypatch, capsys
) -> None:
    url = server.url(database)
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    monkeypatch.setattr(mirror, "PATIENCE", 2.0)
    server.signal(signal.SIGSTOP)
    try:
        assert bench.run(*SHORT).exit_code == 0
    finally:
        server.signal(signal.SIGCONT)
    said = capsys.readouterr().err
    assert "is not up to date: no answer in time; keel-lab sync bowl makes up for it" in said
    monkeypatch.setattr(mirror, "PATIENCE", float(PATIENCE))
    runs = f"sqlite:///{bench.folder}/mlflow.db"
    done = CliRunner().invoke(cli, ["sync", "bowl", "--storage", str(bench.folder / "store"), "--tracking", runs])
    assert done.exit_code == 0, done.output
    assert_same(url, bench)
    assert_no_password(bench, said, done.output)


def test_who_may_not_write_is_told_once_and_sync_delivers_when_he_may(
    server, database, bench, monkeypatch, capsys
) -> None:
    server.say(f"create role {database} login password 'secret word'")
    url = server.url(database, user=database)
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    assert bench.run(*SHORT).exit_code == 0
    said = capsys.readouterr().err
    assert (
        said.count("it may not be written: allow it, or name another place with KEEL_LAB_OPTUNA; the search goes on")
        == 1
    )
    runs = f"sqlite:///{bench.folder}/mlflow.db"
    words = ["sync", "bowl", "--storage", str(bench.folder / "store"), "--tracking", runs]
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == 3
    assert "is not up to date: it may not be written: allow it" in refused.output
    server.say(f"grant create on schema public to {database}", database)
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert_same(url, bench)
    assert_no_password(bench, said, refused.output)


def test_a_wrong_password_is_one_sentence_without_it(server, database, bench, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", server.url(database).replace("secret", "guessed"))
    assert bench.run(*SHORT).exit_code == 0
    said = capsys.readouterr().err
    assert said.count("it does not accept this user and password: correct them in the URI; the search goes on") == 1
    assert "guessed" not in said


def test_mlflows_database_is_refused_and_left_alone(server, database, bench, monkeypatch, capsys) -> None:
    url = server.url(database)
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    with pytest.raises(UsageError, match=r"lab:\*\*\*@.*cannot share a database"):
        bench.run(*SHORT, tracking=url.replace("postgresql://", "postgresql+psycopg://"))
    assert not (bench.folder / "store" / "sweeps").exists()
    server.say("create table alembic_version (version_num varchar(32) not null)", database)
    assert bench.run(*SHORT).exit_code == 0
    said = capsys.readouterr().err
    assert said.count("another program's tables are in it, as MLflow's; Optuna needs a database of its own") == 2
    assert server.say("select tablename from pg_tables where schemaname = 'public'", database) == [("alembic_version",)]


def test_two_storages_share_a_database(server, database, bench, monkeypatch) -> None:
    url, other = server.url(database), Bench(bench.folder / "other")
    other.folder.mkdir()
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    for _ in range(2):
        assert bench.run(*SHORT).exit_code == 0
        assert other.run(*SHORT, "search.seed=5").exit_code == 0
    assert optuna.get_all_study_names(url) == [STUDY, f"{STUDY} (2)"]
    assert_same(url, bench)
    assert_same(url, other, f"{STUDY} (2)")
