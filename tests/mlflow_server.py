"""A real `mlflow server` on loopback, which tests start, kill and start again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


class Server:
    """`mlflow server` in a process group of its own.

    Args:
        folder: for its log, and for runs and artifacts unless these go elsewhere.
        store: URI of its database; an SQLite file of its own by default.
        artifacts: URI of its artifacts; a folder of its own by default.
        options: more words for its command line.
        environment: more variables.
    """

    def __init__(self, folder, *, store=None, artifacts=None, options=(), environment=None):
        self.folder = folder
        self.store = store or f"sqlite:///{folder}/server.db"
        self.artifacts = artifacts or str(folder / "artifacts")
        self.options, self.environment = options, environment or {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        kept = ["--backend-store-uri", self.store, "--artifacts-destination", self.artifacts]
        listen = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1", *self.options]
        environment = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            **self.environment,
        }
        command = [sys.executable, "-m", "mlflow", "server", *kept, *listen]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )
        deadline = time.monotonic() + 120
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
