"""Which tracking URI is used, what is refused before anything runs, and how one gets to the charts."""

import subprocess
import sys
from urllib.parse import parse_qs

import pytest

from keel_lab.errors import UsageError
from keel_lab.track.destination import (
    artifact_location,
    checked_uri,
    experiment_url,
    object_store_endpoint,
    shown,
    tracking_uri,
    ui_command,
)


@pytest.fixture(autouse=True)
def _no_uri_in_the_environment(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_a_local_root_gets_a_database_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in (str(tmp_path / "store"), "store", (tmp_path / "store").as_uri()):
        assert tracking_uri(None, root) == f"sqlite:///{tmp_path}/store/mlflow.db"


def test_a_remote_root_without_a_uri_is_not_tracked():
    assert tracking_uri(None, "s3://bucket/store") is None


def test_the_option_beats_the_environment_and_the_environment_the_root(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://there:5000/")
    assert tracking_uri(None, "store") == "http://there:5000"
    assert tracking_uri("https://here:1", "store") == "https://here:1"
    assert tracking_uri("off", "store") is None
    assert tracking_uri(None, "s3://bucket/store") == "http://there:5000"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("htp://host:5000", "did you mean http?"),
        ("postgres://host/db", "did you mean postgresql?"),
        ("ftp://host", "allowed are http"),
        ("file:///data/mlruns", "sqlite:////data/mlruns/mlflow.db"),
        ("/data/mlruns", "sqlite:////data/mlruns/mlflow.db"),
        ("http://", "names no host"),
        ("postgresql:///db", "names no host"),
        ("sqlite:///", "names no file"),
        ("sqlite://:memory:", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////data/what?.db", "cannot open"),
        ("", "allowed are http"),
    ],
)
def test_a_wrong_uri_is_one_usage_error(uri, words):
    with pytest.raises(UsageError) as caught:
        tracking_uri(uri, "store")
    assert str(caught.value).startswith("--tracking: found")
    assert words in str(caught.value)


def test_an_error_names_the_variable_it_came_from(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere")
    with pytest.raises(UsageError, match=r"^MLFLOW_TRACKING_URI: found 'nowhere'"):
        tracking_uri(None, "store")


@pytest.mark.parametrize(
    "uri", ["postgresql+psycopg2://u:p@h/d", "mysql+pymysql://h/d", "https://h", "http://h:1/path"]
)
def test_what_mlflow_can_write_to_is_left_alone(uri):
    assert checked_uri(uri) == uri


def test_a_relative_database_does_not_move_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert checked_uri("sqlite:///mlflow.db") == f"sqlite:///{tmp_path}/mlflow.db"


def test_a_password_is_never_shown():
    assert shown("postgresql://me:secret@host:1/db") == "postgresql://me:***@host:1/db"
    assert "secret" not in str(ui_command("postgresql://me:secret@host/db"))
    with pytest.raises(UsageError) as caught:
        checked_uri("postgres://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_artifacts_lie_in_storage_unless_a_server_keeps_them():
    assert artifact_location("http://host", "/data/store") is None
    assert artifact_location("sqlite:////x/mlflow.db", "/data/my store") == "file:///data/my%20store/mlartifacts"
    assert artifact_location("postgresql://h/d", "s3://bucket/store/") == "s3://bucket/store/mlartifacts"
    keyed = "s3://KEY:SECRET@bucket/store?endpoint_override=host:1&scheme=http"
    assert artifact_location("postgresql://h/d", keyed) == "s3://bucket/store/mlartifacts"


@pytest.mark.parametrize(
    ("root", "endpoint"),
    [
        ("s3://bucket/store?endpoint_override=host:1&scheme=http&region=x", "http://host:1"),
        ("s3://bucket/store?endpoint_override=host:1", "https://host:1"),
        ("s3://bucket/store?endpoint_override=http%3A%2F%2Fhost%3A1", "http://host:1"),
        ("s3://bucket/store", None),
        ("gs://bucket/store?endpoint_override=host:1", None),
        ("/my/store", None),
    ],
)
def test_mlflow_is_told_where_the_storages_s3_answers(root, endpoint):
    assert (object_store_endpoint(root) or None) == endpoint


def test_the_address_opens_the_charts_of_the_trials():
    url = experiment_url("http://host:5000", "7")
    page, _, query = url.partition("?")
    assert page == "http://host:5000/#/experiments/7/runs"
    values = {key: value[0] for key, value in parse_qs(query).items()}
    assert values["compareRunsMode"] == "CHART"
    assert values["viewStateShareKey"] == "keel-lab-curves"
    assert ui_command("http://host:5000") is None
    assert ui_command("sqlite:////my store/m.db") == "mlflow ui --backend-store-uri 'sqlite:////my store/m.db'"


def test_choosing_where_to_track_imports_nothing_heavy():
    code = (
        "import sys, keel_lab.track.destination, keel_lab.track.mlflow_tracker;"
        "print(sorted({'mlflow', 'pandas', 'torch', 'ray', 'sqlalchemy', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
