"""Hosts on one machine, for tests: namespaces of network, files, processes and names, on a bridge of their own.

Needs root and Debian's iproute2 and util-linux. Nothing of the machine's own network is touched: the bridge is in a
namespace, too. Each host has a /tmp of its own, so that no disk is shared, and hides the folders it is told to hide.
When a host's first process ends, all that runs on it ends.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds; only ever waited for when something is broken
NETWORK = "10.77.0"
KINDS = ("--net", "--mount", "--uts", "--pid")


def _own_tmp() -> list[str]:
    """Hides this machine's /tmp; if the checkout lies in there, it is brought back."""
    if not REPOSITORY.is_relative_to("/tmp"):
        return ["mount -t tmpfs none /tmp"]
    back = [f"mkdir -p '{REPOSITORY}'", f"mount --bind /mnt '{REPOSITORY}'"]
    return [f"mount --bind '{REPOSITORY}' /mnt", "mount -t tmpfs none /tmp", *back]


class Host:
    """One of them; its first process does nothing but live."""

    def __init__(self, name: str, number: int, hidden: Sequence[Path] = ()) -> None:
        self.name, self.address = name, f"{NETWORK}.{number}"
        setup = [
            f"hostname {name}",
            "ip link set lo up",
            *_own_tmp(),
            f"echo '127.0.0.1 localhost\n{self.address} {name}' > /tmp/hosts",
            "mount --bind /tmp/hosts /etc/hosts",
            *(f"mount -t tmpfs none '{folder}'" for folder in hidden),
            "echo up",
            "exec sleep 100000",
        ]
        unshare = ["unshare", *KINDS, "--fork", "--kill-child", "--mount-proc", "sh", "-c", " && ".join(setup)]
        words = ["setpriv", "--pdeathsig", "KILL", *unshare]  # a test that is killed leaves none behind
        self._outer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._outer.stdout is not None
        assert self._outer.stdout.readline() == "up\n"
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        self.pid = int(children[0])
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def tmp(self) -> Path:
        """Its /tmp, seen from outside."""
        return Path(f"/proc/{self.pid}/root/tmp")

    def words(self, *command: str) -> list[str]:
        """The command, to be run there."""
        return ["nsenter", f"--target={self.pid}", *KINDS, f"--wdns={Path.cwd()}", *command]

    def run(self, *command: str) -> str:
        """Runs a command there to its end; gives its standard output."""
        return subprocess.run(self.words(*command), check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def start(self, *command: str, log: Path, folder: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Starts a command there, with output and errors to a file."""
        with log.open("ab") as sink:
            words = ["nsenter", f"--target={self.pid}", *KINDS, f"--wd={folder}", *command]
            made = subprocess.Popen(words, stdout=sink, stderr=sink, env={**os.environ, **env})
        self._started.append(made)
        return made

    def close(self) -> None:
        """Ends the host and all on it."""
        self._outer.kill()
        self._outer.wait(PATIENCE)
        if self._outer.stdout is not None:
            self._outer.stdout.close()
        for process in self._started:
            process.wait(PATIENCE)


class Network:
    """A bridge on a host of its own, `hub`, which others are plugged into."""

    def __init__(self) -> None:
        self.hub = Host("hub", 1)
        for words in (
            "link add bridge type bridge",
            f"addr add {self.hub.address}/24 dev bridge",
            "link set bridge up",
        ):
            self._ip(self.hub, words)

    def plug(self, host: Host) -> None:
        """Lays a cable from the host to the bridge."""
        inside = ["nsenter", f"--target={self.hub.pid}", "--net"]
        cable = f"ip link add {host.name} type veth peer name cable netns {host.pid}"
        subprocess.run([*inside, *cable.split()], check=True, timeout=PATIENCE)
        self._ip(self.hub, f"link set {host.name} master bridge up")
        self._ip(host, f"addr add {host.address}/24 dev cable")
        self._ip(host, "link set cable up")

    def cut(self, host: Host) -> None:
        """Takes its cable out: packets vanish, and nobody is told."""
        self._ip(self.hub, f"link set {host.name} down")

    def mend(self, host: Host) -> None:
        """Puts it in again."""
        self._ip(self.hub, f"link set {host.name} up")

    @staticmethod
    def _ip(host: Host, words: str) -> None:
        inside = ["nsenter", f"--target={host.pid}", "--net", "ip", *words.split()]
        subprocess.run(inside, check=True, timeout=PATIENCE)


def wait_for(true: object, what: str, log: Path | None = None) -> None:
    """Waits until a function gives something true."""
    assert callable(true)
    until = time.monotonic() + PATIENCE
    while not true():
        said = log.read_text()[-3000:] if log is not None and log.exists() else ""
        assert time.monotonic() < until, f"it never came to that: {what}\n{said}"
        time.sleep(0.1)
