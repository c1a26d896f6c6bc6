"""A process's own folder under the system's temporary one: gone with it or, if it was killed, with the next one's."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "kl-"
_ALIVE = "alive"  # held with a kernel lock by the process, which the kernel frees however it ends
_SOCKET_ROOM = 40  # a socket path holds 107 bytes, of which Ray's session takes 66


class Scratch:
    """A new folder; first removes those that killed processes left behind.

    Attributes:
        folder: the folder.
    """

    def __init__(self, *, sockets: bool = False) -> None:
        """Makes it, with a path short enough for Ray's `sockets` if it is for them."""
        base = tempfile.gettempdir()
        base = base if len(base) < _SOCKET_ROOM - 12 or not sockets else "/tmp"
        remove_stale(Path(base))
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        self._handle = os.open(self.folder / _ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def close(self) -> None:
        """Removes the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._handle)


def remove_stale(base: Path) -> None:
    """Removes the folders of processes that are no more; those of living ones, and of other users, stay."""
    for alive in base.glob(f"{PREFIX}*/{_ALIVE}"):
        try:
            handle = os.open(alive, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or just removed by its process
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(alive.parent, ignore_errors=True)
        finally:
            os.close(handle)
