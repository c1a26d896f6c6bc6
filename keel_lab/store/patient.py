"""A storage that is full or away for a moment is waited for: hours of training hang on some of its writes."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from keel_lab.store.stat import Stat

if TYPE_CHECKING:
    from keel_lab.store.root import Backend

PAUSES = (1.0, 5.0, 25.0)  # seconds between tries
REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})  # waiting does not change these
_LOOK = 0.2  # seconds between looks at whether to give up

_T = TypeVar("_T")


def passes(error: OSError) -> bool:
    """Whether the trouble may be over in a moment: a full disk or a network, not a missing file or permission."""
    return not isinstance(error, FileNotFoundError) and error.errno not in REFUSED


class Patient:
    """A `Backend` that tries again what fails for a moment."""

    def __init__(self, backend: Backend, say: Callable[[str], None], hurried: Callable[[], bool]) -> None:
        """Wraps a backend.

        Args:
            backend: the place itself.
            say: is told, as a sentence, what failed and when it is tried again.
            hurried: whether nobody wants to wait any more, as after Ctrl-C.
        """
        self._backend, self._say, self._hurried = backend, say, hurried

    def read(self, path: str) -> bytes:
        """See `Root.read`."""
        return self._try(f"reading {path}", lambda: self._backend.read(path))

    def write(self, path: str, content: bytes, *, synced: bool = True) -> None:
        """See `Root.write`."""
        self._try(f"writing {path}", lambda: self._backend.write(path, content, synced=synced))

    def write_file(self, path: str, source: Path) -> None:
        """See `Root.write_file`."""
        self._try(f"writing {path}", lambda: self._backend.write_file(path, source))

    def exists(self, path: str) -> bool:
        """See `Root.exists`."""
        return self._try(f"looking up {path}", lambda: self._backend.exists(path))

    def stats(self, paths: Iterable[str]) -> dict[str, Stat]:
        """See `Root.stats`."""
        wanted = list(paths)
        return self._try(f"looking up {len(wanted)} files", lambda: self._backend.stats(wanted))

    def list(self, folder: str) -> list[str]:
        """See `Root.list`."""
        return self._try(f"listing {folder or 'it'}", lambda: self._backend.list(folder))

    def delete(self, path: str) -> None:
        """See `Root.delete`."""
        self._try(f"deleting {path}", lambda: self._backend.delete(path))

    def local(self, path: str) -> Path | None:
        """See `Root.local`."""
        return self._backend.local(path)

    def fetch(self, path: str, target: Path) -> None:
        """See `Root.fetch`."""
        self._try(f"fetching {path}", lambda: self._backend.fetch(path, target))

    def _try(self, doing: str, call: Callable[[], _T]) -> _T:
        for pause in PAUSES:
            try:
                return call()
            except OSError as error:
                if not passes(error) or self._hurried():
                    raise
                self._say(f"storage: {doing} failed ({error.strerror or error}); next try in {pause:g} s")
            self._wait(pause)
        return call()

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._hurried():
            time.sleep(_LOOK)
