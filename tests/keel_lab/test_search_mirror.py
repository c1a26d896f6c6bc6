"""The Optuna storage that mirrors a search: which URLs are taken, what is shown of them, and that nothing is broken."""

from __future__ import annotations

import sqlite3

import optuna
import pytest
from click.testing import CliRunner

from keel_lab.cli import cli
from keel_lab.errors import UsageError
from keel_lab.search.mirror_storage import mirror_url, why
from keel_lab.track.destination import shown
from tests.search_bench import Bench

SHORT = ("search.points=5", "search.remeasure.best=0")
STUDY = "bowl: bowl 4 blocks"


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        "postgres://lab:secret@host/optuna",
        "http://lab:secret@host/optuna",
        "optuna.db",
        "journal:",
        "postgresql:lab",
        "mssql://lab:secret@host/optuna",
    ],
)
def test_what_optuna_cannot_write_to_is_refused_without_its_password(monkeypatch, given) -> None:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", given)
    with pytest.raises(UsageError, match="KEEL_LAB_OPTUNA: found") as refused:
        mirror_url(None)
    assert "journal:FILE, and off" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "tracking"),
    [
        ("postgresql://a:b@host/runs", "postgresql+psycopg://c:d@host:5432/runs?sslmode=require"),
        ("mysql+pymysql://a:b@host/runs", "mysql+mysqldb://c:d@host:3306/runs/"),
        ("sqlite:///mlflow.db", "sqlite:///{here}/mlflow.db"),
    ],
)
def test_mlflows_own_database_is_refused(monkeypatch, tmp_path, given, tracking) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEEL_LAB_OPTUNA", given)
    with pytest.raises(UsageError, match="cannot share a database: name another one"):
        mirror_url(None, tracking.format(here=tmp_path))


@pytest.mark.parametrize(
    ("given", "tracking"),
    [
        ("postgresql://a:b@host/optuna", "postgresql://a:b@host/mlflow"),
        ("postgresql://a:b@host/runs", "mysql://a:b@host/runs"),
        ("postgresql://a:b@host:5433/runs", "postgresql://a:b@host/runs"),
        ("sqlite:///optuna.db", "sqlite:///mlflow.db"),
        ("journal:mlflow.db", "sqlite:///mlflow.db"),
    ],
)
def test_another_database_is_taken(monkeypatch, given, tracking) -> None:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", given)
    assert mirror_url(None, tracking) == given


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://lab:secret@host/optuna",
        "postgresql://lab:secret/with@and:colon@host:1/optuna",
        "postgresql+psycopg://:secret@host/optuna",
        "postgresql://host/optuna?user=lab&password=secret",
        "mysql://lab:secret@host/optuna?charset=utf8",
    ],
)
def test_no_password_is_shown_nor_said(url) -> None:
    assert "secret" not in shown(url)
    assert "host" in shown(url)
    said = why(ValueError(f"cannot open {url}"), url)
    assert "secret" not in said
    assert "cannot open" in said


def test_another_programs_tables_are_left_alone(bench, monkeypatch, capsys) -> None:
    file = bench.folder / "runs.db"
    with sqlite3.connect(file) as database:
        database.execute("create table alembic_version (version_num varchar(32) not null)")
    monkeypatch.setenv("KEEL_LAB_OPTUNA", f"sqlite:///{file}")
    assert bench.run(*SHORT).exit_code == 0
    assert "another program's tables are in it" in capsys.readouterr().err
    with sqlite3.connect(file) as database:
        assert database.execute("select name from sqlite_master where type = 'table'").fetchall() == [
            ("alembic_version",)
        ]


def test_another_search_of_that_name_in_a_shared_storage_is_left_alone(bench, monkeypatch) -> None:
    other = Bench(bench.folder / "other")
    other.folder.mkdir()
    url = f"sqlite:///{bench.folder}/shared.db"
    monkeypatch.setenv("KEEL_LAB_OPTUNA", url)
    for _ in range(2):
        bench.run(*SHORT)
        other.run(*SHORT, "search.seed=5")
    assert optuna.get_all_study_names(url) == [STUDY, f"{STUDY} (2)"]
    for one, study in ((bench, STUDY), (other, f"{STUDY} (2)")):
        shown_trials = optuna.load_study(study_name=study, storage=url).trials
        assert [trial.params for trial in shown_trials] == [dict(point.drawn) for point in one.points()]


def test_in_the_storages_own_file_the_remains_of_another_search_are_replaced(bench) -> None:
    bench.run(*SHORT)
    for file in (bench.folder / "store" / "sweeps" / "bowl" / "points").iterdir():
        file.unlink()
    bench.run(*SHORT, "search.seed=5")
    url = f"sqlite:///{bench.folder}/store/optuna.db"
    assert optuna.get_all_study_names(url) == [STUDY]
    shown_trials = optuna.load_study(study_name=STUDY, storage=url).trials
    assert [trial.params for trial in shown_trials] == [dict(point.drawn) for point in bench.points()]


def test_sync_makes_a_deleted_study_again(bench, monkeypatch) -> None:
    bench.run(*SHORT)
    url = f"sqlite:///{bench.folder}/store/optuna.db"
    optuna.delete_study(study_name=STUDY, storage=url)
    words = ["sync", "bowl", "--storage", str(bench.folder / "store")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert f"optuna-dashboard {url}" in done.output
    assert len(optuna.load_study(study_name=STUDY, storage=url).trials) == 5
    monkeypatch.setenv("KEEL_LAB_OPTUNA", f"journal:{bench.folder}/nowhere/journal.log")
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == 3
    assert "is not up to date: no such file or directory" in refused.output
