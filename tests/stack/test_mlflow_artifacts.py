"""Artifacts on S3 (moto's server): kept by MLflow's server, written by us where it says, or in our storage."""

from __future__ import annotations

import subprocess
import sys

import boto3
import pytest

from keel_lab.curve import Curve
from tests.mlflow_server import Server, free_port
from tests.object_store import KEYS, uri_of
from tests.stack.test_mlflow_backends import assert_there, deliver

BUCKET = "lab"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of the object store, in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "tests.object_store", "127.0.0.1", str(port), BUCKET]
    store = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert int(store.stdout.readline()) == port
    yield port
    store.kill()
    store.communicate()


@pytest.fixture
def endpoint(port, monkeypatch):
    """The keys are in the environment of everybody, the address in nobody's."""
    for name in ("MLFLOW_S3_ENDPOINT_URL", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return f"http://127.0.0.1:{port}"


def objects(endpoint, prefix):
    """The bytes below a prefix, by name."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return {item["Key"]: client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read() for item in listed}


def assert_artifacts(endpoint, prefix):
    found = objects(endpoint, prefix)
    names = sorted(name.rpartition("/")[2] for name in found)
    assert names == ["curve.parquet"] * 2 + ["evidence.json"] * 2 + ["report.md", "sweep.yaml"]
    for name, content in found.items():
        if name.endswith(".parquet"):
            assert len(Curve.from_parquet(content)) == 60


@pytest.mark.parametrize("way", ["by the server", "by us"])
def test_a_server_with_artifacts_on_s3(endpoint, tmp_path, monkeypatch, way):
    name = way.replace(" ", "-")
    place = f"s3://{BUCKET}/{name}"
    if way == "by the server":  # which alone knows where the object store is
        server = Server(tmp_path, artifacts=place, environment={"MLFLOW_S3_ENDPOINT_URL": endpoint})
    else:
        direct = ("--no-serve-artifacts", "--default-artifact-root", place)
        server = Server(tmp_path, more=direct)
        monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", endpoint)
    server.start()
    try:
        assert deliver(name, tmp_path, server.uri) == ()
        assert_there(name, server.uri)
    finally:
        server.kill()
    assert_artifacts(endpoint, name)


def test_a_database_keeps_artifacts_in_a_storage_on_s3(endpoint, port, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", "")  # so that what the tracker sets there ends with the test
    monkeypatch.delenv("MLFLOW_S3_ENDPOINT_URL")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert deliver("in-storage", uri_of("127.0.0.1", port, BUCKET, "store"), uri) == ()
    assert_there("in-storage", uri)
    assert_artifacts(endpoint, "store/mlartifacts")


def test_a_bucket_that_does_not_exist_is_one_sentence(endpoint, tmp_path, monkeypatch):
    """The runs are there; their artifacts are not, so nothing counts as delivered."""
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", endpoint)
    server = Server(tmp_path, more=("--no-serve-artifacts", "--default-artifact-root", "s3://nowhere/to/be"))
    server.start()
    try:
        (sentence,) = deliver("refused", tmp_path, server.uri)
    finally:
        server.kill()
    assert sentence == (
        f"2 runs and the summary were not delivered to {server.uri}: the bucket of its artifacts does not exist: "
        f"create it; `keel-lab sync refused --tracking {server.uri}` delivers them"
    )
