"""A real `mlflow server` on loopback for tests, which can be killed and started again; and a sweep to deliver to it."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from types import SimpleNamespace

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.trial import Trial

QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`mlflow server` in a process group of its own; `more` are words of its command line."""

    def __init__(self, folder, store=None, artifacts=None, more=(), environment=None):
        self.folder = folder
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.store = store or f"sqlite:///{folder}/server.db"
        self.artifacts = artifacts or str(folder / "artifacts")
        self.more, self.environment = more, environment or {}

    def start(self):
        listen = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        kept = ["--backend-store-uri", self.store, "--artifacts-destination", self.artifacts]
        command = [sys.executable, "-m", "mlflow", "server", *kept, *listen, *self.more]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **QUIET, **self.environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            try:
                if self.get("/health") == b"OK":
                    return
            except OSError:
                assert self.process.poll() is None, (self.folder / "server.log").read_text()
                time.sleep(0.2)
        raise AssertionError((self.folder / "server.log").read_text())

    def up(self):
        if self.process is None:
            self.start()

    def kill(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def get(self, path):
        with urllib.request.urlopen(self.uri + path, timeout=10) as answer:
            return answer.read()

    def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.uri + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


class Cursor:
    """As the store keeps it: JSON text."""

    def __init__(self):
        self.text = "{}"

    def load(self):
        return json.loads(self.text)

    def save(self, state):
        self.text = json.dumps(state)


def ramp(architecture, blocks, seed=0, steps=200, **options):
    settings = {"model": ModelSettings(), "data": None, "train": TrainSettings(), "schedule": RampSchedule(steps=steps)}
    seeds = {"init_seed": seed, "data_seed": seed}
    it = Trial(architecture=architecture, options=options, blocks=blocks, **seeds, **settings)
    return PlannedTrial(it, Cell(architecture, blocks), {"seed": seed}, 12345)


def collapse(planned, onset):
    """A curve that learns and collapses at `onset`, ending in Inf and NaN; the result and its verdict."""
    curve, last = Curve(), planned.trial.schedule.steps
    for step in range(1, last + 1):
        loss = 5.5 - 2.5 * min(step, onset) / onset + (0.0 if step < onset else min(2.5, (step - onset) / 10))
        loss = math.inf if step == last - 1 else math.nan if step == last else loss
        curve.append(
            Step(step, loss, lr_at(planned.trial.schedule, step), 3.1, 1.0 + step % 7, tokens=256 * step), 0.01
        )
    lr = lr_at(planned.trial.schedule, onset - 1)
    verdict = Verdict(Status.DIVERGED, Mode.COLLAPSE, onset, onset - 1, lr, learned=True)
    execution = {"torch": "2.13.0", "started_at": time.time() - 5, "finished_at": time.time(), "seconds_per_step": 0.01}
    data = {"unigram_entropy": 3.0}
    metrics = {"val_loss": 3.25}
    result = TrialResult(planned.trial.id, Outcome.DIVERGED, last, verdict, {}, metrics, data, execution)
    return result, verdict, curve


def sweep_of(name, trials):
    spec = {"name": name, "question": "Which architecture tolerates the largest learning rate?"}
    return SimpleNamespace(name=name, spec=spec, trials=tuple(trials), data=None)
