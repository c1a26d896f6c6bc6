"""Who runs a sweep: one driver at a time, by a kernel lock on a local root and by a heartbeat on an object store."""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from keel_lab.errors import UsageError
from keel_lab.store.document import check_name
from keel_lab.store.heartbeat import PULSE, Heartbeat, Pulse, beating
from keel_lab.store.root import Root, StorageError

_TRIES, _PAUSE = 10, 0.05  # seconds; `holder` takes the lock for an instant to look, which must not refuse a driver
_held: set[int] = set()


class Lease(Protocol):
    """A sweep held by this process."""

    def check(self) -> None:
        """Raises `StorageError` if the lease was lost: another driver took over while this one was not heard of."""

    def release(self) -> None:
        """Frees the sweep."""


@contextmanager
def hold(root: Root, name: str, pulse: Pulse = PULSE) -> Iterator[Lease]:
    """Holds a sweep for this process, which frees it when it ends, however it ends.

    Args:
        root: where the sweep is stored.
        name: of the sweep, which need not exist yet.
        pulse: timing of the heartbeat on an object store.

    Raises:
        UsageError: if another process holds it; the message names its host and process id.
        StorageError: if the storage cannot be written or its file system knows no locks.
    """
    folder = f"sweeps/{check_name('sweep', name)}"
    lock = root.local(f"{folder}/lease.lock")
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    lease: Lease
    if lock is not None:
        lease = _FileLock(lock, me)
        other = lease.take()
    else:
        lease = Heartbeat(root, f"{folder}/lease.json", me, pulse)
        other = lease.take()
    if other is not None:
        raise UsageError(_refusal(name, other))
    try:
        yield lease
    finally:
        lease.release()


def holder(root: Root, name: str) -> dict[str, Any] | None:
    """Host, pid and start (Unix seconds) of the process that runs the sweep now; None if none does."""
    folder = f"sweeps/{check_name('sweep', name)}"
    lock = root.local(f"{folder}/lease.lock")
    if lock is None:
        return beating(root, f"{folder}/lease.json")
    try:
        handle = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{lock} cannot be read: {error.strerror}") from error
    try:
        return None if _lock(lock, handle, fcntl.LOCK_SH) else _facts(handle)
    finally:
        os.close(handle)


class _FileLock:
    """`flock` on an open file: the kernel frees it when the process dies, -9 included.

    It belongs to the open file, so a forked child would keep it alive: the handle is closed on exec and after a fork.
    """

    def __init__(self, path: Path, me: dict[str, Any]) -> None:
        self._path, self._me = path, me
        self._handle = -1

    def take(self) -> dict[str, Any] | None:
        """Takes the lock, or returns who has it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be written: {error.strerror}; allow it, or name another place with --storage"
            ) from error
        for _ in range(_TRIES):
            if _lock(self._path, handle, fcntl.LOCK_EX):
                break
            time.sleep(_PAUSE)
        else:
            other = _facts(handle)
            os.close(handle)
            return other
        _close_after_fork()
        _held.add(handle)
        self._handle = handle
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(self._me).encode(), 0)
        return None

    def check(self) -> None:
        """A kernel lock cannot be lost."""

    def release(self) -> None:
        """Frees the lock; in a forked child there is nothing to free."""
        if self._handle in _held and self._me["pid"] == os.getpid():
            _held.discard(self._handle)
            os.ftruncate(self._handle, 0)
            os.close(self._handle)


def _lock(path: Path, handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        known = error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
        reason = "its file system has no locks; name a local folder with --storage" if known else error.strerror
        raise StorageError(f"{path} cannot be locked: {reason}") from error
    return True


def _facts(handle: int) -> dict[str, Any]:
    content = os.pread(handle, 4096, 0)
    try:
        return dict(json.loads(content))
    except ValueError:  # its holder is just writing it: known to be held, not yet by whom
        return {"host": None, "pid": None, "started": None}


@functools.cache
def _close_after_fork() -> None:
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    while _held:
        os.close(_held.pop())


def _refusal(name: str, other: dict[str, Any]) -> str:
    if other.get("pid") is None:
        return f"sweep {name} is being run by another process, which has just started; try again in a moment"
    since = datetime.fromtimestamp(other["started"]).astimezone().isoformat(" ", "seconds")
    return (
        f"sweep {name} is being run by pid {other['pid']} on host {other['host']} since {since}; "
        f"wait for it, or stop it there with `kill -INT {other['pid']}` and then `keel-lab resume {name}`"
    )
