"""A network that leads nowhere: one namespace for each host, on a bridge in a namespace of its own (root, iproute2)."""

from __future__ import annotations

import os
import subprocess

PREFIX = "10.77.0"


class Network:
    """Hosts by number, 2 to 254; none of their traffic or ports can leave it."""

    def __init__(self) -> None:
        self._switch = f"keel{os.getpid()}"
        self._spaces = [self._switch]
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        _ip("-n", self._switch, "address", "add", f"{PREFIX}.1/24", "dev", "bridge")

    def connect(self, number: int) -> None:
        """Makes the host."""
        space, port = self.space(number), f"port{number}"
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "address", "add", f"{address(number)}/24", "dev", "eth0")
        _ip("-n", space, "route", "add", "default", "via", f"{PREFIX}.1")

    def space(self, number: int) -> str:
        """The host's network namespace."""
        return f"{self._switch}-{number}"

    def close(self) -> None:
        """Removes it; what still ran in it would keep its own part."""
        while self._spaces:
            _ip("netns", "delete", self._spaces.pop())


def address(number: int) -> str:
    """The host's address."""
    return f"{PREFIX}.{number}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
