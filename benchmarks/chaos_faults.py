"""The faults of `benchmarks/chaos.py`: what each does to a driver, its processes, its clock or its storage."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CLOCK_SOURCE = Path(__file__).with_name("jumping_clock.c")
DAY = 24 * 3600  # seconds
SOON = {  # Ray notices a dead raylet in seconds, not in a quarter of a minute
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


class Fault(NamedTuple):
    """A kind of fault.

    Attributes:
        weight: how often it is drawn, beside the others.
        strike: does it; says whether there was something to do it to.
        ends: whether the driver is expected to end by it.
        needs: `ray` for what only a driver with Ray has, `local` for one without, `driver` for any, "" for what hits
            the storage alone.
    """

    name: str
    weight: float
    strike: Callable[[Scene], bool]
    ends: bool = False
    needs: str = ""


@dataclass
class Scene:
    """What faults are done to.

    Attributes:
        store: the storage root, on a small file system of its own if `mounted`.
        offset: the file that sets the processes' clock.
        driver: the driver that runs now, if one does.
        rival: starts a second driver and returns its exit code.
    """

    random: random.Random
    place: Path
    store: Path
    offset: Path
    mounted: bool
    rival: Callable[[], int]
    driver: subprocess.Popen[str] | None = None

    def signal(self, *numbers: int) -> bool:
        """Signals to the driver."""
        assert self.driver is not None
        for number in numbers:
            self.driver.send_signal(number)
            time.sleep(self.random.uniform(0.0, 0.5) if len(numbers) > 1 else 0.0)
        return True

    def process(self, title: str) -> int | None:
        """One of the driver's processes, by the start of its title."""
        assert self.driver is not None
        found = [pid for pid in descendants(self.driver.pid) if title in program(pid)]
        return self.random.choice(sorted(found)) if found else None

    def file(self, pattern: str) -> Path | None:
        """One of the stored files."""
        found = sorted(self.store.glob(pattern))
        return self.random.choice(found) if found else None


def kill(title: str, number: int) -> Callable[[Scene], bool]:
    """A signal to one of the driver's processes."""

    def strike(scene: Scene) -> bool:
        pid = scene.process(title)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    return strike


def freeze(scene: Scene) -> bool:
    """A worker that stands still for a second, as on a machine that swaps."""
    pid = scene.process("ray::run_attempt")
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(pid, signal.SIGCONT)
    return True


def tear(pattern: str) -> Callable[[Scene], bool]:
    """Half of a stored file is gone."""

    def strike(scene: Scene) -> bool:
        path = scene.file(pattern)
        if path is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.truncate(path, path.stat().st_size // 2)
        return True

    return strike


def flip(pattern: str) -> Callable[[Scene], bool]:
    """One bit of a stored file is another one."""

    def strike(scene: Scene) -> bool:
        path = scene.file(pattern)
        if path is None or not (content := bytearray(path.read_bytes())):
            return False
        content[scene.random.randrange(len(content))] ^= 1
        path.write_bytes(content)
        return True

    return strike


def lose(pattern: str) -> Callable[[Scene], bool]:
    """A stored file is deleted."""

    def strike(scene: Scene) -> bool:
        path = scene.file(pattern)
        if path is not None:
            path.unlink(missing_ok=True)
        return path is not None

    return strike


def full(scene: Scene) -> bool:
    """The disk is full for up to two seconds."""
    filling = scene.place / "filling"
    with filling.open("wb", buffering=0) as sink, contextlib.suppress(OSError):
        while True:
            sink.write(b"0" * 65536)
    time.sleep(scene.random.uniform(0.2, 2.0))
    filling.unlink()
    return True


def read_only(scene: Scene) -> bool:
    """The trials' folder cannot be written for up to two seconds."""
    folder = scene.store / "trials"
    if not folder.exists():
        return False
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    remount = ["mount", "-o", "remount,bind,ro", folder]
    for _ in range(100):  # it is refused while a file is being written
        if subprocess.run(remount, capture_output=True, check=False).returncode == 0:
            time.sleep(scene.random.uniform(0.2, 2.0))
            break
    subprocess.run(["umount", "-l", folder], check=True)
    return True


def clock(scene: Scene) -> bool:
    """The clock is set to up to a year away."""
    scene.offset.write_text(str(scene.random.randint(-365, 365) * DAY))
    return True


WORKER = "ray::run_attempt"
FAULTS = (
    Fault("worker SIGKILL", 5, kill(WORKER, signal.SIGKILL), needs="ray"),
    Fault("worker SIGTERM", 4, kill(WORKER, signal.SIGTERM), needs="ray"),
    Fault("worker stopped for a second", 2, freeze, needs="ray"),
    Fault("raylet SIGKILL", 0.6, kill("/raylet", signal.SIGKILL), needs="ray"),
    Fault("GCS SIGKILL", 0.4, kill("/gcs_server", signal.SIGKILL), needs="ray"),
    Fault("driver SIGKILL", 1.5, lambda scene: scene.signal(signal.SIGKILL), ends=True, needs="driver"),
    Fault("driver Ctrl-C", 0.7, lambda scene: scene.signal(signal.SIGINT), ends=True, needs="driver"),
    Fault(
        "driver Ctrl-C twice", 0.7, lambda scene: scene.signal(signal.SIGINT, signal.SIGINT), ends=True, needs="driver"
    ),
    Fault("driver SIGTERM", 0.7, lambda scene: scene.signal(signal.SIGTERM), ends=True, needs="driver"),
    Fault("second driver", 0.6, lambda scene: scene.rival() == 2, needs="driver"),
    Fault("clock set", 3, clock, needs="local"),
    Fault("result torn", 1.5, tear("trials/*/result.json")),
    Fault("curve damaged", 1.5, flip("trials/*/curve*.parquet")),
    Fault("curve lost", 1, lose("trials/*/curve*.parquet")),
    Fault("checkpoint torn", 1.5, tear("trials/*/checkpoints/*")),
    Fault("index torn", 1, tear("index/results.parquet")),
    Fault("disk full", 1.5, full, needs="driver"),
    Fault("storage read-only", 1, read_only, needs="driver"),
)
MOUNTED = ("disk full", "storage read-only")


def build_clock(folder: Path) -> Path:
    """Compiles the library that sets a process's clock; needs gcc."""
    library = folder / "jumping_clock.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, CLOCK_SOURCE, "-ldl"], check=True)
    return library


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {pid}


def program(pid: int) -> str:
    """A process's program or title."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
    return ""
