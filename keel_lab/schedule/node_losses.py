"""Nodes that a cluster has lost. Ray tells a driver of a task's end, but of a host that fell silent only much later.

A host without power or network answers nothing, not even that a connection is gone: it is counted out after some
missed heartbeats, but a call that a driver has on it ends after minutes (gRPC's keepalive, seven of them by default).
"""

from __future__ import annotations

import time

from keel_lab.schedule.ray_cluster import RayCluster

LOOK_EVERY = 2.0  # seconds


class NodeLosses:
    """Asks the cluster now and then which of its nodes are lost; those that were before it began count as known."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._known: set[str] = cluster.dead()
        self._next = 0.0

    def new(self) -> set[str]:
        """The ids of nodes lost since the last call."""
        now = time.monotonic()
        if now < self._next:
            return set()
        self._next = now + LOOK_EVERY
        lost = self._cluster.dead() - self._known
        self._known |= lost
        return lost

    def known(self, node: str) -> bool:
        """Whether this one has been lost."""
        return node in self._known
