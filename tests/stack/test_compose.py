"""docker-compose.yml: what docker-compose says of it, and a sweep on the stack it describes, started without Docker."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.native_compose import REPOSITORY, NativeStack, resolved
from tests.native_images import docker_environment, image_of

ASKED = ("POSTGRES_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "RAY_AUTH_TOKEN")
QUICK = ("sweeps/quickstart.yaml", "ramp.steps=40", "grid.depth.blocks=[2]", "siblings.reference=false")
TEXT = (REPOSITORY / "docker-compose.yml").read_text()
SERVICES = ("postgres", "s3", "buckets", "mlflow", "ray-head", "ray-worker")

LIST_OBJECTS = """
import boto3, sys
pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=sys.argv[1])
print(*(item["Key"] for page in pages for item in page.get("Contents", ())), sep="\\n")
"""
READ = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=30).read())"


def variables(folder: Path, **changed: str) -> Path:
    """.env.example filled in as it asks, with passwords of this run."""
    lines = [
        f"{line}{line[0]}-{index:032x}" if re.fullmatch(r"\w+=", line) else line
        for index, line in enumerate((REPOSITORY / ".env.example").read_text().splitlines())
    ]
    file = folder / "variables.env"
    file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in changed.items()), ""]))
    return file


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    config = resolved(variables(tmp_path_factory.mktemp("config")))
    assert config.returncode == 0, config.stderr
    return YAML(typ="safe").load(config.stdout)["services"]


def test_docker_compose_accepts_the_files(services, tmp_path):
    assert tuple(sorted(services)) == tuple(sorted(SERVICES))
    with_gpu = resolved(variables(tmp_path), "docker-compose.yml", "docker-compose.gpu.yml")
    assert with_gpu.returncode == 0, with_gpu.stderr
    devices = YAML(typ="safe").load(with_gpu.stdout)["services"]["ray-worker"]["deploy"]
    assert devices["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


@pytest.mark.parametrize("missing", ASKED)
def test_nothing_starts_without_a_password(missing, tmp_path):
    refused = resolved(variables(tmp_path, **{missing: ""}))
    assert refused.returncode != 0
    assert f"set {missing} in .env, see .env.example" in refused.stderr


def test_the_example_names_every_variable_with_its_default():
    example = (REPOSITORY / ".env.example").read_text()
    assert tuple(re.findall(r"^(\w+)=$", example, re.M)) == ASKED
    assert set(re.findall(r"\$\{(\w+):\?", TEXT)) == set(ASKED)
    assert dict(re.findall(r"^#(\w+)=(.*)$", example, re.M)) == dict(re.findall(r"\$\{(\w+):-(.*?)\}", TEXT))
    assert not re.findall(r"\$\{?\w+\}", TEXT)
    assert subprocess.run(["git", "check-ignore", ".env"], cwd=REPOSITORY, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_bounded_watched_and_private(name, services):
    service = services[name]
    if name == "buckets":  # has done its work when it ends
        assert service["restart"] == "on-failure"
        assert "healthcheck" not in service
    else:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
    assert {"cpus", "mem_limit", "pids_limit"} <= set(service)
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert "build" in service or re.fullmatch(r"[\w/-]+:\d+\.\d+[\w.-]*", service["image"])
    for key, value in YAML(typ="safe").load(TEXT)["services"][name]["environment"].items():
        if re.search("PASSWORD|SECRET|TOKEN|KEY", key):
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), key


def test_the_images_have_the_versions_that_are_tested_here(services):
    postgres = subprocess.run(["postgres", "--version"], env=image_of("postgres").environment, capture_output=True)
    major = re.search(rb"\d+", postgres.stdout).group().decode()
    assert services["postgres"]["image"].startswith(f"postgres:{major}.")
    weed = subprocess.run(["weed", "version"], env=image_of("chrislusf/seaweedfs").environment, capture_output=True)
    assert f" {services['s3']['image'].partition(':')[2]} " in weed.stdout.decode()


def test_the_dockerfile_copies_what_is_there_and_ends_without_root():
    lines = (REPOSITORY / "Dockerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    admitted = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == admitted
    assert all((REPOSITORY / word).exists() for word in copied)
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10001:10001"
    assert {line for line in lines if line.startswith("FROM ")} == {
        "FROM python:${PYTHON} AS build",
        "FROM python:${PYTHON}",
    }
    assert any(re.fullmatch(r"ARG PYTHON=3\.\d+\.\d+-slim-bookworm", line) for line in lines)
    assert docker_environment()["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    stack = NativeStack(folder, variables(folder, RAY_WORKER_CPUS="1"), {"ray-worker": 2})
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
        shutil.rmtree(folder)


def succeed(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def hosts(stack, name: str, **environment: str) -> set[str]:
    """Where the trials of a stored sweep ran."""
    code = (
        "import sys; from keel_lab.store.root import resolve_root; from keel_lab.store.sweeps import Sweeps; "
        "from keel_lab.store.trials import Trials; root = resolve_root(None); "
        "ids = [one.trial.id for one in Sweeps(root).load(sys.argv[1]).trials]; "
        "print(*(result.execution['host'] for result in Trials(root).results(ids).values()))"
    )
    return set(succeed(stack.exec("ray-head-1", "python", "-c", code, name, **environment)).split())


def runs(stack) -> int:
    """Finished runs in PostgreSQL, asked over the network with the password."""
    question = ["psql", "--host=postgres", "--username=mlflow", "--no-align", "--tuples-only", "--command"]
    return int(succeed(stack.exec("mlflow-1", *question, "select count(*) from runs where status = 'FINISHED'")))


def objects(stack, bucket: str) -> list[str]:
    return succeed(stack.exec("ray-head-1", "python", "-c", LIST_OBJECTS, bucket)).split()


@pytest.fixture(scope="module")
def swept(stack) -> str:
    """What `keel-lab run` prints for the shipped quickstart, made shorter; all of it is in MLflow."""
    ended = stack.exec("ray-head-1", "keel-lab", "run", *QUICK)
    if "keel-lab sync" in ended.stderr:  # a busy machine: a run does not wait for a slow server, and says how to go on
        succeed(stack.exec("ray-head-1", "keel-lab", "sync", "quickstart"))
    return succeed(ended)


def test_quickstart_runs_on_all_workers_and_arrives_in_postgres_and_s3(stack, swept):
    assert "Max LR by architecture and depth" in swept
    assert all(name in swept for name in ("post_ln", "deepnorm", "hybridnorm", "mix_ln", "pre_ln", "keel"))
    assert hosts(stack, "quickstart") == {"ray-worker-1", "ray-worker-2"}
    assert runs(stack) == 7  # six trials and the summary
    assert sum(key.endswith("curve.parquet") for key in objects(stack, "mlflow")) == 6


def test_it_goes_on_after_a_power_cut_and_stores_trials_in_s3(stack, swept):
    again = ("postgres-1", "s3-1", "mlflow-1", "ray-worker-2")
    for name in again:
        stack.kill(name)
    for name in again:
        stack.start(name)
    for name in again:
        stack.wait_ready(stack.containers[name])
    assert runs(stack) == 7
    curve = next(key for key in objects(stack, "mlflow") if key.endswith("curve.parquet"))
    address = f"http://mlflow:5000/api/2.0/mlflow-artifacts/artifacts/{curve}"
    first_bytes = ("ray-head-1", "python", "-c", READ.replace(".read()", ".read(4)"), address)
    deadline = time.monotonic() + 60
    while stack.exec(*first_bytes).returncode and time.monotonic() < deadline:
        time.sleep(1.0)  # the store lists its objects before its volumes are there
    assert succeed(stack.exec(*first_bytes)) == "PAR1"
    place = {"KEEL_LAB_STORAGE": "s3://keel-lab/store"}
    table = succeed(
        stack.exec(
            "ray-head-1",
            "keel-lab",
            "run",
            *QUICK,
            "grid.architecture=[keel, pre_ln]",
            "name=s3",
            "--tracking=off",
            **place,
        )
    )
    assert "keel" in table
    assert hosts(stack, "s3", **place) == {"ray-worker-1", "ray-worker-2"}
    assert sum(key.endswith("result.json") for key in objects(stack, "keel-lab")) == 2


def test_strangers_get_nothing(stack):
    wrong = stack.exec("mlflow-1", "psql", "--host=postgres", "--username=mlflow", "--command=select 1", PGPASSWORD="x")
    assert "password authentication failed" in wrong.stderr
    unsigned = stack.exec("ray-worker-1", "python", "-c", READ, "http://s3:8333/mlflow")
    assert "403" in unsigned.stderr
    inner = stack.exec("ray-worker-1", "python", "-c", READ, "http://s3:8888/")  # the store's own filer asks nobody
    assert "Connection refused" in inner.stderr
    rebound = stack.exec("ray-worker-1", "python", "-c", READ, f"http://{stack.containers['mlflow-1'].address}:5000/")
    assert "403" in rebound.stderr
    tokenless = stack.exec("ray-worker-1", "ray", "status", "--address=ray-head:6379", RAY_AUTH_TOKEN="0" * 32)
    assert tokenless.returncode != 0
    assert "token" in (tokenless.stdout + tokenless.stderr).lower()
