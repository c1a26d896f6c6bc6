"""Mounts, and the sweep that nothing was done to."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driven_sweep import DrivenSweep


class Tmpfs:
    """A small file system of its own (needs root)."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._mounted: list[Path] = []
        self._mount(place, "-t", "tmpfs", "-o", "size=4m", "tmpfs")

    def read_only(self, folder: Path) -> None:
        """Lets no one write into a folder of it any more, root included."""
        self._mount(folder, "--bind", str(folder))
        deadline = time.monotonic() + 60
        while subprocess.run(["mount", "-o", "remount,bind,ro", folder], capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline  # busy while a file in it is being written
            time.sleep(0.01)

    def writable(self) -> None:
        """Undoes `read_only`."""
        subprocess.run(["umount", self._mounted.pop()], check=True)

    def close(self) -> None:
        """Unmounts all of it, also where this process still has a file open, such as MLflow's database."""
        while self._mounted:
            subprocess.run(["umount", "--lazy", self._mounted.pop()], check=True)

    def _mount(self, place: Path, *options: str) -> None:
        subprocess.run(["mount", *options, place], check=True)
        self._mounted.append(place)


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Tmpfs]:
    """A mounted one."""
    place = tmp_path / "tmpfs"
    place.mkdir()
    mounted = Tmpfs(place)
    yield mounted
    mounted.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> DrivenSweep:
    """Six trials, run in one go."""
    sweep = DrivenSweep(tmp_path_factory.mktemp("undisturbed"))
    sweep.call("run", "toys.yaml", "--executor", "local")
    return sweep
