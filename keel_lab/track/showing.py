"""What `keel-lab ui` does: MLflow's pages of a sweep, from its server, or from one of ours on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.track.destination import experiment_url, shown, ui_command
from keel_lab.track.reason import understood
from keel_lab.track.writer import import_mlflow

HOST, PORT = "127.0.0.1", 5000
PATIENCE = 120.0  # seconds that MLflow's server may take to answer: it migrates a new database first


def show(name: str | None, uri: str, port: int | None, *, browser: bool, stored: bool = True) -> None:
    """Prints the address of a sweep's charts, or of MLflow itself, and opens it.

    For a database it starts MLflow's server, and returns when that ends or Ctrl-C comes.

    Args:
        name: of the sweep; None for all.
        uri: as from `destination.tracking_uri`.
        port: of our server; None for the usual or a free one.
        browser: whether to open one.
        stored: whether storage has the sweep, from which it could be delivered.

    Raises:
        UsageError: if the sweep is not there, or the port is taken.
        KeelLabError: if MLflow cannot be reached, or its server does not start.
    """
    experiment = None if name is None else _experiment(name, uri, stored)
    if ui_command(uri) is None:
        _present(shown(uri) if experiment is None else experiment_url(uri, experiment), browser)
        return
    base = f"http://{HOST}:{_free_port(port)}"
    with _server(uri, base) as server:
        _present(base if experiment is None else experiment_url(uri, experiment, base), browser)
        _say("Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.wait()


def _experiment(name: str, uri: str, stored: bool) -> str:
    """The id of the sweep's experiment."""
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise UsageError(_not_there(name, uri, stored))
    try:
        import_mlflow(uri)
        from mlflow.tracking import MlflowClient

        found = MlflowClient(tracking_uri=uri).get_experiment_by_name(name)
    except Exception as error:
        why = understood(error, uri)
        question = "" if why.hopeless else "; is it up?"
        raise KeelLabError(f"MLflow at {shown(uri)} cannot be read: {why.text}{question}") from error
    if found is None or found.lifecycle_stage == "deleted":
        raise UsageError(_not_there(name, uri, stored))
    return str(found.experiment_id)


def _not_there(name: str, uri: str, stored: bool) -> str:
    remedy = f"`keel-lab sync {name}` delivers it" if stored else "nor is it in storage: run it, or name its --storage"
    return f"sweep {name!r} is not in MLflow at {shown(uri)}; {remedy}"


def _free_port(asked: int | None) -> int:
    for port in (PORT, 0) if asked is None else (asked,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise UsageError(f"--port: found {asked}, which is in use on {HOST}; give another one, or none for a free one")


@contextmanager
def _server(uri: str, base: str) -> Iterator[subprocess.Popen[bytes]]:
    """MLflow's server on loopback, in a process group of its own that ends with the block."""
    port = base.rpartition(":")[2]
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", port, "--workers", "1"]
    environment = {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": uri,  # not on the command line: it may hold a password
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    with tempfile.TemporaryDirectory(prefix="keel-lab-ui-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as out, _ended_by_sigterm():
            server = subprocess.Popen(
                command, env=environment, stdout=out, stderr=out, start_new_session=True, cwd=folder
            )
            try:
                _wait(server, base, log)
                yield server
            finally:
                _end(server)


def _wait(server: subprocess.Popen[bytes], base: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{base}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    why = lines[-1].strip() if lines else "no answer in time"
    raise KeelLabError(f"MLflow's server did not start at {base}: {why[:300]}; try another --port")


def _end(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if server.poll() is None:
            os.killpg(server.pid, number)
            try:
                server.wait(10.0)
            except subprocess.TimeoutExpired:
                continue


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block in good order, so that no server is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _present(url: str, browser: bool) -> None:
    print(url, flush=True)  # noqa: T201
    if browser and not webbrowser.open(url):
        _say("no browser could be opened: copy the address")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
