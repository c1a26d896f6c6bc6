"""A storage root that is a folder: every write is a temporary file, then renamed over its target.

It is synced before, so that no power cut leaves the new name with none of the bytes, unless the writer can do without:
a process that is killed loses nothing of what it has written either way.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from keel_lab.store.stat import Stat

_TEMPORARY = ".tmp"  # with a leading dot; what a killed writer leaves behind is never listed


class Folder:
    """The local backend of `Root`. Paths were checked there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> bytes:
        """See `Root.read`."""
        return (self._folder / path).read_bytes()

    def write(self, path: str, content: bytes, *, synced: bool = True) -> None:
        """See `Root.write`."""
        self._replace(path, lambda sink: sink.write(content), synced)

    def write_file(self, path: str, source: Path) -> None:
        """See `Root.write_file`."""
        with source.open("rb") as stream:
            self._replace(path, lambda sink: shutil.copyfileobj(stream, sink, 1 << 20))

    def exists(self, path: str) -> bool:
        """See `Root.exists`."""
        return (self._folder / path).exists()

    def stats(self, paths: Iterable[str]) -> dict[str, Stat]:
        """See `Root.stats`."""
        found = {}
        prefix = f"{self._folder}/"
        for path in paths:
            try:
                status = os.stat(prefix + path)  # noqa: PTH116 - thousands at once, where building a Path would double the time
            except (FileNotFoundError, NotADirectoryError):
                continue
            found[path] = Stat(status.st_size, status.st_mtime_ns)
        return found

    def list(self, folder: str) -> list[str]:
        """See `Root.list`."""
        try:
            names = [entry.name for entry in (self._folder / folder).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if not (name.startswith(".") and name.endswith(_TEMPORARY)))

    def delete(self, path: str) -> None:
        """See `Root.delete`."""
        (self._folder / path).unlink(missing_ok=True)

    def local(self, path: str) -> Path | None:
        """See `Root.local`."""
        return self._folder / path

    def fetch(self, path: str, target: Path) -> None:
        """Copies the file to `target`; `Root` hands on the stored file itself instead."""
        shutil.copyfile(self._folder / path, target)

    def _replace(self, path: str, fill: Callable[[IO[bytes]], object], synced: bool = True) -> None:
        target = self._folder / path
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_TEMPORARY}")
        try:
            with temporary.open("xb") as sink:
                fill(sink)
                sink.flush()
                if synced or target.exists():  # what was there before must not be lost with what replaces it
                    os.fsync(sink.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
