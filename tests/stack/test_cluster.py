"""A Ray cluster of several hosts that share nothing but a network and an object store (root, iproute2).

A head without CPUs, on which the driver runs, and two workers, from which our packages are hidden: code comes as a
wheel or as the driver ships it, data and checkpoints through the store. A Ray that ends is started again, as by a
supervisor.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_store import KEYS, uri_of
from tests.stack.hosts import PATIENCE, Host, Network, wait_for

REPOSITORY = Path(__file__).parents[2]
OURS = ("keel_lab", "trainers", "analysis", "tests", "sweeps")
HEALTH = {  # a lost host is noticed after some seconds, and not after a minute
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}
ENVIRONMENT = {
    **KEYS,
    **HEALTH,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PIP_NO_DEPS": "1",  # else Ray, which installs the wheel by pip, installs torch with it
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "OMP_NUM_THREADS": "1",
}
SWEEP = """
    schema: 1
    name: {name}
    protocol: ramp
    trainer: shards
    grid:
      architecture: [toy]
      depth: {{blocks: [1]}}
      seed: {seeds}
    model: {{context: 8}}
    data: {{text: "*.txt"}}
    ramp: {{shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 60}}
    siblings: {{reference: false}}
    resources: {{cpus: 1, memory: 64MiB}}
"""
TOGETHER = """
    schema: 1
    name: {name}
    protocol: grid
    grid:
      architecture: [pre_ln]
      depth: {{blocks: [1]}}
      lr: [1e-3]
      seed: {seeds}
    model: {{width: 8, heads: 2, kv_heads: 1, ffn_width: 16, context: 8}}
    data: {{text: "*.txt"}}
    train: {{batch_size: 4}}
    schedule: {{shape: cosine, steps: 20, warmup_steps: 2, validation_sequences: 8}}
    resources: {{workers: 2, strategy: fsdp, cpus: 1, memory: 64MiB}}
"""
READ = """
    import hashlib, json, sys
    from keel_lab.store.root import Root
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.store.trials import Trials
    root = Root.open(sys.argv[1])
    trials, told = Trials(root), {}
    for planned in Sweeps(root).load(sys.argv[2]).trials:
        result = trials.result(planned.trial.id)
        curve = trials.curve(planned.trial.id)
        hashed = hashlib.sha256(curve.to_parquet()).hexdigest()
        verdict = str(result.verdict.status)
        failures = [attempt.to_json() for attempt in trials.attempts(planned.trial.id)]
        told[planned.trial.id] = {
            "curve": hashed, "steps": result.steps, "verdict": verdict, "failures": failures,
            "workers": result.execution.get("workers", 1), "host": result.execution["host"],
        }
    print(json.dumps(told))
"""


class Cluster:
    """The hosts, and how a driver runs on the head."""

    def __init__(self) -> None:
        self.network = Network()
        self.head = Host("head", 2)
        hidden = sorted({REPOSITORY / name for name in OURS} | installed())
        self.workers = {name: Host(name, number, hidden) for name, number in (("w1", 3), ("w2", 4))}
        self.logs = self.head.tmp
        self.ray = f"{self.head.address}:6379"
        settings = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        self.status = ["env", *settings, "ray", "status", f"--address={self.ray}"]
        self.storage = uri_of(self.network.hub.address, 5000, "lab", "store")
        self.folder = self.head.tmp / "work"

    def start(self, wheel: Path) -> None:
        """Starts the store and the head's Ray."""
        self.network.plug(self.head)
        words = (sys.executable, "-m", "tests.object_store", self.network.hub.address, "5000", "lab")
        self.network.hub.start(*words, log=self.logs / "store", folder=REPOSITORY, env=ENVIRONMENT)
        self._start_ray(self.head, ["--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false"])
        self.folder.mkdir()
        (self.folder / "a.txt").write_text("".join(f"{n} bottles of beer on the wall.\n" for n in range(600)))
        subprocess.run(["cp", "-r", REPOSITORY / "tests" / "stack" / "shards", wheel, self.folder], check=True)
        (self.folder / "workers.yaml").write_text(
            f"py_modules: [{wheel.name}, shards]\nenv_vars: {{CLUSTER_PACE: '0.08'}}\n"
        )
        wait_for(lambda: (self.logs / "store").read_text().startswith("5000"), "the store serves", self.logs / "store")
        wait_for(
            lambda: "Ray runtime started" in (self.logs / "ray.log").read_text(), "Ray runs", self.logs / "ray.log"
        )

    def join(self, name: str) -> Host:
        """Plugs a worker in and keeps its Ray running."""
        worker = self.workers[name]
        self.network.plug(worker)
        self._start_ray(worker, [f"--address={self.ray}", "--num-cpus=1"])
        return worker

    def _start_ray(self, host: Host, options: list[str]) -> None:
        ray = ["ray", "start", *options, f"--node-ip-address={host.address}", "--object-store-memory=80000000"]
        command = " ".join([*ray, "--temp-dir=/tmp/ray", "--disable-usage-stats", "--block"])
        forever = f"while true; do {command}; sleep 0.5; done"
        (host.tmp / "ray.log").touch()
        host.start("sh", "-c", forever, log=host.tmp / "ray.log", folder=Path("/"), env=ENVIRONMENT)

    def drive(self, name: str, seeds: range, *options: str, sweep: str = SWEEP) -> tuple[subprocess.Popen[bytes], Path]:
        """Starts a sweep from the head; gives the driver and what it says."""
        sweep = textwrap.dedent(sweep).format(name=name, seeds=list(seeds))
        (self.folder / f"{name}.yaml").write_text(sweep)
        log = self.logs / f"{name}.log"
        words = [sys.executable, "-m", "keel_lab", "run", f"{name}.yaml", "--tracking", "off", *options]
        env = {**ENVIRONMENT, "PYTHONPATH": f"{REPOSITORY}:/tmp/work"}
        return self.head.start(*words, log=log, folder=self.folder, env=env), log

    def demands(self) -> str:
        """What `ray status` says that is asked for and not there."""
        return self.head.run(*self.status).partition("Demands:")[2]

    def results(self, name: str, storage: str) -> dict[str, dict[str, object]]:
        """What is stored of a sweep's trials, each of which is done."""
        settings = [f"{key}={value}" for key, value in {**KEYS, "PYTHONPATH": str(REPOSITORY)}.items()]
        script = textwrap.dedent(READ)
        told: dict[str, dict[str, object]] = json.loads(
            self.head.run("env", *settings, sys.executable, "-c", script, storage, name)
        )
        return told

    def starts(self, trial_id: str) -> dict[str, list[int]]:
        """The steps that each worker's starts of a trial went on from."""
        files = {name: worker.tmp / "side" / trial_id for name, worker in self.workers.items()}
        return {name: [int(line) for line in file.read_text().split()] for name, file in files.items() if file.exists()}

    def close(self) -> None:
        """Ends all of it."""
        for host in (*self.workers.values(), self.head, self.network.hub):
            host.close()


def installed() -> set[Path]:
    """Where an interpreter that is told nothing finds our packages: the checkout that was installed."""
    code = f"import importlib.util as u; print(*(s.origin for s in map(u.find_spec, {OURS[:3]!r}) if s), sep='\\n')"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    told = subprocess.run([sys.executable, "-c", code], cwd="/", env=clean, capture_output=True, text=True, check=True)
    return {Path(line).parent for line in told.stdout.split() if "site-packages" not in line}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert importlib.util.find_spec("moto") is not None
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY)]
    subprocess.run(build, check=True, timeout=PATIENCE)
    made = Cluster()
    try:
        made.start(next(folder.glob("*.whl")))
        yield made
    finally:
        made.close()


def test_a_host_that_joins_is_used_and_one_that_is_lost_costs_nothing(cluster: Cluster) -> None:
    w1 = cluster.join("w1")
    with pytest.raises(subprocess.CalledProcessError):
        w1.run(sys.executable, "-c", "import keel_lab.trial")
    driver, log = cluster.drive(
        "cut", range(6), "--ray-address", cluster.ray, "--storage", cluster.storage, "--runtime-env", "workers.yaml"
    )
    wait_for(lambda: (w1.tmp / "side" / "now").exists(), "w1 trains", log)
    assert driver.poll() is None, log.read_text()
    wait_for(lambda: ": 1+ pending tasks" in cluster.demands(), "the queue's demand is seen by an autoscaler", log)
    assert "'CPU': 1.0" in cluster.demands()

    w2 = cluster.join("w2")
    now = w2.tmp / "side" / "now"
    wait_for(lambda: now.exists() and int((now.read_text() or "x 0").split()[1]) in range(12, 30), "w2 trains", log)
    assert driver.poll() is None, log.read_text()
    lost = now.read_text().split()[0]
    cluster.network.cut(w2)
    wait_for(lambda: "the node was lost; attempt 2 follows" in log.read_text(), "the loss is noticed", log)
    cluster.network.mend(w2)
    assert driver.wait(PATIENCE) == 0, log.read_text()

    told = cluster.results("cut", cluster.storage)
    local, said = cluster.drive("cut", range(6), "--executor", "local", "--storage", "/tmp/undisturbed")
    assert local.wait(PATIENCE) == 0, said.read_text()
    undisturbed = cluster.results("cut", "/tmp/undisturbed")
    assert len(told) == 6
    for trial_id, result in told.items():
        assert result["curve"] == undisturbed[trial_id]["curve"]
        assert result["verdict"] == undisturbed[trial_id]["verdict"]
    failures = [failure for result in told.values() for failure in result["failures"]]
    assert {(failure["kind"], failure["message"]) for failure in failures} == {("preempted", "the node was lost")}
    assert "w2" in {failure["node"] for failure in told[lost]["failures"]}
    assert any(step >= 10 for steps in cluster.starts(lost).values() for step in steps), "it began anew"


def test_a_host_on_which_trials_die_in_a_row_is_set_aside_by_name(cluster: Cluster) -> None:
    w2 = cluster.workers["w2"]
    (w2.tmp / "bad").touch()
    status = cluster.status
    wait_for(lambda: "/2.0 CPU" in cluster.head.run(*status), "the host that was lost is back", w2.tmp / "ray.log")
    driver, log = cluster.drive("bad", range(10, 22), "--ray-address", cluster.ray, "--storage", cluster.storage)
    assert driver.wait(PATIENCE) == 0, log.read_text()
    assert "3 trials in a row died on w2: it is set aside, the others go on" in log.read_text()
    told = cluster.results("bad", cluster.storage)
    assert {result["host"] for result in told.values()} == {"w1"}
    failures = [failure for result in told.values() for failure in result["failures"]]
    said = {(failure["node"], failure["message"].partition(" (")[0]) for failure in failures}
    assert said == {("w2", "OSError: this host is broken")}
    assert len(told) == 12


def test_a_trial_may_be_larger_than_a_host(cluster: Cluster) -> None:
    """Each host has one CPU, so its two workers are on both, with a copy of the data each and gloo between them."""
    (cluster.workers["w2"].tmp / "bad").unlink()
    options = ("--ray-address", cluster.ray, "--storage", cluster.storage)
    driver, log = cluster.drive("large", range(1), *options, sweep=TOGETHER)
    assert driver.wait(PATIENCE) == 0, log.read_text()
    (result,) = cluster.results("large", cluster.storage).values()
    assert (result["steps"], result["workers"], result["failures"]) == (20, 2, [])
    for worker in cluster.workers.values():
        assert list(worker.tmp.glob("keel-lab-data-*/*/manifest.json")), f"{worker.name} took no part"
