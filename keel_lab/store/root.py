"""The storage root: a folder or an object store behind one small set of atomic operations on relative paths."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.store.folder import Folder
from keel_lab.store.patient import REFUSED, Patient, passes
from keel_lab.store.remedy import remedy_of
from keel_lab.store.remote import Remote
from keel_lab.store.stat import Stat

if TYPE_CHECKING:
    import pyarrow.fs as pafs

ENVIRONMENT = "KEEL_LAB_STORAGE"
DEFAULT = "keel-lab-store"
_DRIVE = re.compile(r"[A-Za-z]:")


class StorageError(KeelLabError):
    """The storage could not be read or written: full, away, or not permitted. What was there before is still there."""

    exit_code = 2  # of a command that could not begin; a run that has begun ends as incomplete (`launch`)

    @property
    def passes(self) -> bool:
        """Whether it is worth another try in a moment."""
        return not isinstance(self.__cause__, OSError) or passes(self.__cause__)


class Backend(Protocol):
    """What `Root` needs of a place; errors are `OSError`. One contract suite holds for every implementation."""

    def read(self, path: str) -> bytes: ...  # noqa: D102 - as in Root, all of them
    def write(self, path: str, content: bytes, *, synced: bool = True) -> None: ...  # noqa: D102
    def write_file(self, path: str, source: Path) -> None: ...  # noqa: D102
    def exists(self, path: str) -> bool: ...  # noqa: D102
    def stats(self, paths: Sequence[str]) -> dict[str, Stat]: ...  # noqa: D102
    def list(self, folder: str) -> list[str]: ...  # noqa: D102
    def delete(self, path: str) -> None: ...  # noqa: D102
    def local(self, path: str) -> Path | None: ...  # noqa: D102
    def fetch(self, path: str, target: Path) -> None: ...  # noqa: D102


class Root:
    """A storage root. Paths are relative POSIX paths; whatever could leave the root is a `UsageError`.

    Every operation raises `StorageError`, naming root and path, if the place fails.

    Attributes:
        uri: absolute path or URI, which `open` takes in any process.
    """

    def __init__(self, backend: Backend, uri: str) -> None:
        self._backend = backend
        self.uri = uri

    @classmethod
    def open(cls, uri: str | Path) -> Root:
        """Opens a folder or a pyarrow.fs URI (`s3://`, `gs://`, `file://`). Nothing is created before the first write.

        Raises:
            UsageError: if it is a file, is inside one, has an unknown scheme, or cannot be reached.
        """
        text = str(uri)
        if not text.strip():
            raise UsageError(f"storage '' is no place; name a folder or URI with --storage or {ENVIRONMENT}")
        if isinstance(uri, str) and "://" in uri and not uri.startswith("file://"):
            return cls(Remote.from_uri(uri, _shown(uri)), uri)
        folder = Path(os.path.abspath(_path_of(text).expanduser()))  # noqa: PTH100 - normalises `..`, unlike absolute()
        nearest = next(place for place in (folder, *folder.parents) if place.exists())
        if not nearest.is_dir():
            what = "is a file" if nearest == folder else f"lies inside the file {nearest}"
            raise UsageError(f"storage {folder} {what}; name a folder with --storage or {ENVIRONMENT}")
        return cls(Folder(folder), str(folder))

    @classmethod
    def on(cls, filesystem: pafs.FileSystem, base: str, uri: str) -> Root:
        """A root at `base` of an open `pyarrow.fs` file system; `uri` is how it is called."""
        return cls(Remote(filesystem, base), uri)

    def patient(self, say: Callable[[str], None], hurried: Callable[[], bool]) -> Root:
        """The same root, which tries again for half a minute what fails for a moment; see `store.patient`."""
        return Root(Patient(self._backend, say, hurried), self.uri)

    def __str__(self) -> str:
        return _shown(self.uri)

    def __repr__(self) -> str:
        return f"Root({str(self)!r})"

    def read(self, path: str) -> bytes:
        """The file's bytes.

        Raises:
            FileNotFoundError: if there is none.
        """
        with self._naming("read", path):
            return self._backend.read(_checked(path))

    def write(self, path: str, content: bytes, *, synced: bool = True) -> None:
        """Writes a file, atomically: a reader sees all of the old bytes or all of the new ones.

        Without `synced` a new file may be empty after a power cut within the next half minute (not after a killed
        process): for what is quickly made again, and found damaged when it is read. A sync takes some milliseconds.
        """
        with self._naming("write", path, missing=True):
            self._backend.write(_checked(path), content, synced=synced)

    def write_file(self, path: str, local: Path) -> None:
        """Writes a copy of a local file, atomically."""
        with self._naming("write", path, missing=True):
            self._backend.write_file(_checked(path), local)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        with self._naming("look up", path):
            return self._backend.exists(_checked(path))

    def stats(self, paths: Sequence[str]) -> dict[str, Stat]:
        """Size and time of those of the files that exist; made for thousands at once."""
        with self._naming("look up", f"{len(paths)} files"):
            return self._backend.stats([_checked(path) for path in paths])

    def list(self, folder: str = "") -> list[str]:
        """Sorted names of the files and folders in a folder; empty if it does not exist. "" is the root itself."""
        with self._naming("list", folder):
            return self._backend.list(_checked(folder) if folder else "")

    def delete(self, path: str) -> None:
        """Deletes a file, if it exists."""
        with self._naming("delete", path):
            self._backend.delete(_checked(path))

    def local(self, path: str) -> Path | None:
        """Where the file lies on this machine, whether or not it exists; None on an object store."""
        return self._backend.local(_checked(path))

    def fetch(self, path: str, into: Path) -> Path:
        """The file on this machine: the stored one itself, never to be changed, or a copy of it in the folder `into`.

        Raises:
            FileNotFoundError: if there is none.
        """
        with self._naming("fetch", path):
            stored = self.local(path)
            if stored is not None:
                stored.stat()
                return stored
            target = into / path.rpartition("/")[2]
            self._backend.fetch(_checked(path), target)
            return target

    @contextmanager
    def _naming(self, doing: str, path: str, *, missing: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not missing:
                raise
            remedy = "free some space, then go on" if error.errno == errno.ENOSPC else "check that it can be reached"
            if error.errno in REFUSED:
                remedy = f"allow it, or name another place with --storage or {ENVIRONMENT}"
            remedy = remedy_of(error) or remedy
            reason = error.strerror or str(error)
            raise StorageError(f"storage {self}: cannot {doing} {path or 'it'}: {reason}; {remedy}") from error


def resolve_root(option: str | None) -> Root:
    """The root that a command works on: `--storage`, else KEEL_LAB_STORAGE, else ./keel-lab-store.

    Raises:
        UsageError: see `Root.open`.
    """
    return Root.open(option if option is not None else os.environ.get(ENVIRONMENT) or DEFAULT)


def inside(path: str) -> bool:
    """Whether it is a relative path that cannot leave the root."""
    parts = path.split("/")
    return not (any(part in ("", ".", "..") for part in parts) or "\\" in path or "\0" in path or _DRIVE.match(path))


def _checked(path: str) -> str:
    if not inside(path):
        raise UsageError(f"stored path {path!r}: a relative path inside the storage root is needed, such as a/b.json")
    return path


def _path_of(text: str) -> Path:
    if not text.startswith("file://"):
        return Path(text)
    split = urlsplit(text)
    if split.netloc not in ("", "localhost"):
        raise UsageError(f"storage {text}: a file:// URI names no host; write file:///ABSOLUTE/PATH")
    return Path(unquote(split.path))


def _shown(uri: str) -> str:
    """The URI without credentials (`s3://KEY:SECRET@bucket`), for messages."""
    return re.sub(r"(?<=://)[^/@]*@", "***@", uri)
