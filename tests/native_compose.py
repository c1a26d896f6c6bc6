"""What `docker compose` does with docker-compose.yml, on a machine without Docker (root, bubblewrap, iproute2).

Each container is a host of a private network, with a file system that bubblewrap puts together: volumes, temporary
places, and nothing of the host's that could be written to. Command, environment, user and health check are those of the
resolved compose file. What is not imitated: images (the same programs come from Debian and from this environment, see
`tests.native_images`), limits of processor and memory, and restarts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.native_images import PROGRAMS, Image, image_of
from tests.native_network import Network, address

REPOSITORY = Path(__file__).parents[1]


def resolved(variables: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """`docker-compose config` with the variables of this .env file and no others."""
    chosen = [word for file in files for word in ("--file", file)]
    return subprocess.run(
        ["docker-compose", "--env-file", str(variables), *chosen, "config"],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )


@dataclass
class Container:
    """One container of a service.

    Attributes:
        name: such as ray-worker-2; also its host name.
        service: its service's entry in the resolved file.
        number: of its address.
        process: bubblewrap, while it runs.
        ready: whether its health check has passed since it was started; without one, whether it has done its work.
    """

    name: str
    service: Mapping[str, Any]
    number: int
    process: subprocess.Popen[bytes] | None = None
    ready: bool = False

    @property
    def address(self) -> str:
        return address(self.number)

    @property
    def image(self) -> Image:
        return image_of(self.service["image"])

    @property
    def environment(self) -> dict[str, str]:
        return {**self.image.environment, **{key: str(value) for key, value in self.service["environment"].items()}}


class NativeStack:
    """The containers of a compose file."""

    def __init__(self, folder: Path, variables: Path, scale: Mapping[str, int]) -> None:
        config = resolved(variables)
        assert config.returncode == 0, config.stderr
        self._services = YAML(typ="safe").load(config.stdout)["services"]
        self._folder = folder
        self._network: Network | None = None
        self.containers: dict[str, Container] = {}
        for service in self._in_order():
            for index in range(1, scale.get(service, 1) + 1):
                name = f"{service}-{index}"
                self.containers[name] = Container(name, self._services[service], 2 + len(self.containers))

    def up(self) -> None:
        """Starts every container, each when those it depends on are ready."""
        self._write_etc()
        self._network = Network()
        for container in self.containers.values():
            self._network.connect(container.number)
            self.start(container.name)
        for container in self.containers.values():
            self.wait_ready(container)

    def down(self) -> None:
        """Ends everything and removes the network; the volumes stay in the folder."""
        for name in reversed(self.containers):
            self.kill(name)
        if self._network is not None:
            self._network.close()

    def start(self, name: str) -> None:
        """Starts a container once those it depends on are ready."""
        container = self.containers[name]
        for needed, wanted in container.service.get("depends_on", {}).items():
            for other in self._of(needed):
                check = "healthy" if "healthcheck" in other.service else "completed_successfully"
                assert wanted["condition"] == f"service_{check}"
                self.wait_ready(other)
        command = [*container.image.entrypoint, *container.service.get("command", container.image.command)]
        assert self._network is not None
        within = ["ip", "netns", "exec", self._network.space(container.number)]
        with self._log(container).open("ab") as log:
            container.process = subprocess.Popen(
                [*within, *self._sandbox(container), *_as(container), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL: the container's first process takes all others with it."""
        container = self.containers[name]
        if container.process is not None:
            if container.process.poll() is None:
                os.kill(_inner(container) or container.process.pid, signal.SIGKILL)
            container.process.wait()
            container.process, container.ready = None, False

    def exec(
        self, name: str, *command: str, timeout: float = 300, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`docker compose exec`: a command inside a running container, as its user."""
        container = self.containers[name]
        enter = ["nsenter", "--target", str(_inner(container)), "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        words = [*enter, *_as(container), "env", f"--chdir={container.image.folder}", *command]
        environment = {**container.environment, **environment}
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=timeout)

    def wait_ready(self, container: Container, timeout: float = 300) -> None:
        """Runs the service's health check until it passes (and not again), or awaits the end of one that has none."""
        deadline = time.monotonic() + timeout
        while not container.ready:
            process = container.process
            assert process is not None, f"{container.name} was not started"
            words, ended = "", process.poll()
            if "healthcheck" not in container.service:
                container.ready = ended == 0
            elif ended is None and _inner(container):
                kind, *command = container.service["healthcheck"]["test"]
                assert kind == "CMD"
                answer = self.exec(container.name, *command)
                container.ready, words = answer.returncode == 0, answer.stdout + answer.stderr
            state = f"{container.name}: ended with {ended}, {words}\n{self.log(container.name)}"
            assert container.ready or (ended is None and time.monotonic() < deadline), state
            time.sleep(0 if container.ready else 0.5)

    def log(self, name: str) -> str:
        """The last of what the container printed."""
        path = self._log(self.containers[name])
        return path.read_text(errors="replace")[-5000:] if path.exists() else ""

    def _log(self, container: Container) -> Path:
        return self._folder / f"{container.name}.log"

    def _of(self, service: str) -> Iterable[Container]:
        return [one for one in self.containers.values() if one.service is self._services[service]]

    def _in_order(self) -> list[str]:
        """Services after those they depend on."""
        order: list[str] = []
        while len(order) < len(self._services):
            order += [
                name
                for name, service in self._services.items()
                if name not in order and set(service.get("depends_on", {})) <= set(order)
            ]
        return order

    def _write_etc(self) -> None:
        """Names and users as in the containers; nobody answers for other names."""
        names = [f"{one.address} {one.name.rpartition('-')[0]} {one.name}" for one in self.containers.values()]
        (self._folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        (self._folder / "resolv.conf").write_text("")
        users = {one.image.owner: one.image for one in self.containers.values()}
        lines = [f"{image.user}:x:{uid}:{gid}::{image.folder}:/bin/sh" for (uid, gid), image in users.items()]
        (self._folder / "passwd").write_text("\n".join(["root:x:0:0:root:/root:/bin/sh", *lines, ""]))

    def _sandbox(self, container: Container) -> list[str]:
        """Bubblewrap's arguments: read-only programs, and of writable places what the service declares."""
        service, image = container.service, container.image
        words = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname"]
        words += [container.name, "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"]
        words += [] if service.get("init") else ["--as-pid-1"]
        words += _above(f"{image.folder}/here")
        for place in [] if service.get("read_only") else ["/tmp", *image.writable]:
            words += _mounted("--bind", self._kept(container, f"layer/{container.name}{place}"), place)
        for place in service.get("tmpfs", []):
            words += ["--perms", "1777", "--tmpfs", place]
        for program in PROGRAMS:
            link = program.is_symlink()
            words += _mounted("--symlink" if link else "--ro-bind", program.readlink() if link else program, program)
        for name in ("hosts", "resolv.conf", "passwd"):
            words += _mounted("--ro-bind", self._folder / name, f"/etc/{name}")
        for volume in service.get("volumes", []):
            source, target, mode = volume.split(":")
            origin = Path(source) if source.startswith("/") else self._kept(container, f"volumes/{source}")
            words += _mounted("--ro-bind" if mode == "ro" else "--bind", origin, target)
        words += ["--clearenv"]
        for key, value in container.environment.items():
            words += ["--setenv", key, value]
        return [*words, "--chdir", image.folder, "--"]

    def _kept(self, container: Container, name: str) -> Path:
        folder = self._folder / name
        if not folder.exists():
            folder.mkdir(parents=True)
            os.chown(folder, *container.image.owner)
        return folder


def _as(container: Container) -> list[str]:
    """As the image's user, without any capability, like `cap_drop: [ALL]` and no-new-privileges."""
    uid, gid = container.image.owner
    dropped = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig=KILL"]
    return ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *dropped, "--"]


def _mounted(option: str, source: Path, target: Path | str) -> list[str]:
    return [*_above(target), option, str(source), str(target)]


def _above(place: Path | str) -> list[str]:
    """Bubblewrap's words for the folders above a place, which it would make for root alone."""
    above = [str(parent) for parent in reversed(Path(place).parents[:-1])]
    return [word for parent in above for word in ("--perms", "0755", "--dir", parent)]


def _inner(container: Container) -> int | None:
    """The container's first process, seen from outside: the child of bubblewrap."""
    assert container.process is not None
    pid = container.process.pid
    if container.process.poll() is not None:
        return None
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None
