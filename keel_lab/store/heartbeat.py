"""A lease on an object store, which has no locks: a small file, written again and again while its holder lives."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any

from keel_lab.errors import NewerSchemaError
from keel_lab.store.document import DamagedError, dump, parse
from keel_lab.store.root import Root, StorageError

SCHEMA = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pulse:
    """Timing of a heartbeat, in seconds.

    Attributes:
        interval: between beats; six small writes a minute cost nothing beside training.
        expiry: after the last beat the lease is free. Six intervals: one failed write, a slow store and clocks half a
            minute apart do not lose a sweep, and nobody waits longer than a minute after a crash.
        settle: between writing a lease and reading it back; two drivers that write at once both see the later one's.
    """

    interval: float = 10.0
    expiry: float = 60.0
    settle: float = 2.0


PULSE = Pulse()


class Heartbeat:
    """A lease held by beating. `take` starts a daemon thread, which dies with its process."""

    def __init__(self, root: Root, path: str, me: dict[str, Any], pulse: Pulse) -> None:
        self._root, self._path, self._pulse = root, path, pulse
        self._me = {**me, "token": secrets.token_hex(8), "expiry": pulse.expiry}
        self._stop, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="keel-lab-lease", daemon=True)

    def take(self) -> dict[str, Any] | None:
        """Takes the lease if it is free or expired, or returns who has it."""
        other = self._other()
        if other is None:
            self._beat()
            time.sleep(self._pulse.settle)
            now = _read(self._root, self._path)
            other = now if now is not None and now["token"] != self._me["token"] else None
        if other is None:
            self._thread.start()
        return other

    def _other(self) -> dict[str, Any] | None:
        """Who holds the lease now. By the clocks alone only while they agree; else its beats are waited for.

        A holder whose clock was set back would look dead while it lives, and one whose clock was ahead would look alive
        for long after its death.
        """
        found = _read(self._root, self._path)
        if found is None or abs(time.time() - found["beat"]) <= found["expiry"]:
            return _who(found)
        time.sleep(2 * self._pulse.interval)
        again = _read(self._root, self._path)
        return None if again == found else _who(again)

    def check(self) -> None:
        """Raises `StorageError` if another driver took over."""
        if self._lost.is_set():
            raise StorageError(
                f"{self._root}/{self._path}: another driver took this sweep over, because no beat of this one was seen "
                f"for {self._pulse.expiry:g} s; this one stops"
            )

    def release(self) -> None:
        """Stops beating and frees the lease, if it is still this process's."""
        self._stop.set()
        if self._thread.is_alive():  # not in a forked child, where no thread goes on
            self._thread.join()
            try:
                if not self._lost.is_set() and self._is_mine():
                    self._root.delete(self._path)
            except StorageError as error:
                _log.warning("the lease expires by itself in %g s: %s", self._pulse.expiry, error)

    def _run(self) -> None:
        while not self._stop.wait(self._pulse.interval):
            try:
                if not self._is_mine():
                    self._lost.set()
                    return
                self._beat()
            except NewerSchemaError:  # a driver of a newer version took over
                self._lost.set()
                return
            except StorageError as error:  # the next beat may succeed; until the lease expires nobody takes it
                _log.warning("a beat of the lease failed: %s", error)

    def _is_mine(self) -> bool:
        now = _read(self._root, self._path)
        return now is None or now["token"] == self._me["token"]

    def _beat(self) -> None:
        self._root.write(self._path, dump({**self._me, "beat": time.time()}, SCHEMA))


def beating(root: Root, path: str) -> dict[str, Any] | None:
    """Host, pid and start of the holder of a lease that has not expired; None if there is none."""
    found = _read(root, path)
    if found is None or time.time() - found["beat"] > found["expiry"]:
        return None
    return _who(found)


def _who(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if found is None else {key: found[key] for key in ("host", "pid", "started")}


def _read(root: Root, path: str) -> dict[str, Any] | None:
    data: dict[str, Any] | None = None
    with contextlib.suppress(FileNotFoundError):
        content = root.read(path)
        try:
            data = parse(content, f"{root}/{path}", SCHEMA)
        except DamagedError as error:  # nobody writes it so; a live holder's next beat puts it right
            _log.warning("%s; it counts as no lease", error)
    fields = ("host", "pid", "started", "token", "beat", "expiry")
    return data if data is not None and all(field in data for field in fields) else None
