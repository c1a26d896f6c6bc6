"""Starts a local Ray that only this machine can reach, or joins a running one."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.schedule.scratch import Scratch
from keel_lab.settings import Resources

OBJECT_STORE = 100 * 1024**2  # bytes; results are small, curves go through storage
KNOCK = 10.0  # seconds to wait for a cluster's port
LOOK_EVERY = 1.0  # seconds between two looks whether a local Ray is still there

logger = logging.getLogger(__name__)


class RayCluster:
    """A connection to Ray, whose own words on standard output go to our log while it lives."""

    def __init__(self, address: str | None, runtime_env: Callable[[], Mapping[str, Any]] | None = None) -> None:
        """Joins the Ray at `address`, else the one of RAY_ADDRESS, else starts one on loopback for this process.

        A Ray that the process has already initialised is used as it is and left running. One that is joined has its
        workers run in what `runtime_env` gives (`shipping`).

        Raises:
            UsageError: if there is no Ray at the address.
        """
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        self.local = address == "local"
        self._scratch: Scratch | None = None
        self._look_at = 0.0
        if self.local:
            os.environ.update(_private_settings())
        import ray

        self._ray: Any = ray
        self._owned = not ray.is_initialized()
        if not self._owned:
            self.local = False
        elif self.local:
            self._start()
        else:
            self._join(address, dict(runtime_env()) if runtime_env is not None else None)
        self._stdout = contextlib.redirect_stdout(cast(IO[str], _WithoutRay(sys.stdout)))
        self._stdout.__enter__()

    def nodes(self, but_for: Collection[str] = ()) -> list[Mapping[str, float]]:
        """The total resources of each node that is alive, but for those with these ids."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        return [node["Resources"] for node in alive if node["NodeID"] not in but_for]

    def dead(self) -> set[str]:
        """The ids of the nodes that were part of it and are no more."""
        return {node["NodeID"] for node in self._ray.nodes() if not node["Alive"]}

    def gone(self) -> bool:
        """Whether the head of a local Ray (its GCS) has died, by a look every now and then.

        Ray itself would end this process a minute later.
        """
        if not self.local or time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_EVERY
        try:
            _knock(self._ray.get_runtime_context().gcs_address)
        except ConnectionRefusedError:
            return True
        except OSError:  # too busy to answer in time
            return False
        return False

    def close(self) -> None:
        """Disconnects; a local Ray ends with all of its processes and files."""
        self._stdout.__exit__(None, None, None)
        if self._owned:
            self._ray.shutdown()
        if self._scratch is not None:
            self._scratch.close()

    def _start(self) -> None:
        self._scratch = Scratch(sockets=True)
        try:
            with _environment_of_workers(self._scratch.folder):
                self._ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    object_store_memory=OBJECT_STORE,
                    _temp_dir=str(self._scratch.folder),
                    _node_ip_address="127.0.0.1",
                )
        except SystemExit as end:  # Ray's own handler of SIGTERM exits with the signal's bare number
            self._scratch.close()
            raise SystemExit(128 + end.code if isinstance(end.code, int) else end.code) from end
        except Exception as error:  # Ray tells many kinds of trouble in as many types
            self._ray.shutdown()
            self._scratch.close()
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise KeelLabError(f"Ray could not be started: {reason}; --executor local works without it") from error

    def _join(self, address: str, runtime_env: dict[str, Any] | None = None) -> None:
        try:
            _knock(address)
            self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env=runtime_env)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(
                f"no Ray can be joined at {address}: {reason}; start it, correct --ray-address or RAY_ADDRESS, or "
                "leave both out for a local Ray"
            ) from error


def _knock(address: str) -> None:
    """Fails at once where nobody listens: Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


def capacity(nodes: Iterable[Mapping[str, float]], resources: Resources) -> int:
    """How many trials with these resources the nodes hold at once; the workers of one may be on several."""
    return sum(fits(node, resources) for node in nodes) // resources.workers


def fits(node: Mapping[str, float], resources: Resources) -> int:
    """How many workers with these resources a node holds at once."""
    wanted = demand(resources)
    return min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in wanted.items() if amount > 0)


def demand(resources: Resources) -> dict[str, float]:
    """The resources of one worker by Ray's names."""
    return {"CPU": float(resources.cpus), "GPU": resources.gpus, "memory": float(resources.memory)}


def refusal(nodes: list[Mapping[str, float]], resources: Resources) -> UsageError:
    """The error for a trial that no node can hold."""
    asked = f"{resources.cpus} CPUs, {resources.gpus:g} GPUs and {resources.memory / 2**30:.3g} GiB"
    where = "no node of this Ray has"
    if resources.workers > 1:
        asked, where = f"{resources.workers} workers of {asked} each", "the nodes of this Ray do not have together"
    held = "; ".join(
        f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs, {node.get('memory', 0) / 2**30:.3g} GiB"
        for node in sorted(nodes, key=lambda node: -node.get("CPU", 0))[:3]
    )
    return UsageError(
        f"resources: a trial asks for {asked}, which {where} ({held or 'no node'}); "
        "lower `resources` in the sweep file or join a larger cluster with --ray-address"
    )


def _private_settings() -> dict[str, str]:
    """What must be in the environment before Ray is imported: loopback only (STACK), no telemetry, a secret.

    Where something else has imported Ray before, its library has already read the environment: a secret that only the
    new daemons know would lock the driver out.
    """
    settings = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }
    if "ray" in sys.modules:
        if os.environ.items() >= settings.items():
            return settings
        logger.warning("Ray was imported before keel_lab could restrict it to this machine: its ports may be reachable")
    elif "RAY_AUTH_MODE" not in os.environ:
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return settings


@contextlib.contextmanager
def _environment_of_workers(scratch: Path) -> Iterator[None]:
    """Local workers import what the driver can, of which Ray hands on no more than the script's folder.

    Their temporary files go to the driver's scratch folder, so that none outlives it.
    """
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "TMPDIR")}
    places = [str(Path(place or ".").resolve()) for place in sys.path if not place.endswith(".zip")]
    library = Path(os.__file__).parent
    own = [place for place in places if library not in (Path(place), *Path(place).parents) and Path(place).is_dir()]
    os.environ |= {"PYTHONPATH": os.pathsep.join(dict.fromkeys(own)), "TMPDIR": str(scratch)}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _WithoutRay:
    """Standard output, less what Ray's threads print: "(raylet) ..." comes there whatever Ray's log settings are."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if not threading.current_thread().name.startswith("ray_"):
            return int(self._stream.write(text))
        for line in filter(str.strip, text.splitlines()):
            logger.info("%s", line)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
