"""A storage root on any `pyarrow.fs` file system, S3 and Google Cloud Storage first; a put there is atomic as it is."""

from __future__ import annotations

import contextlib
import posixpath
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keel_lab.errors import UsageError
from keel_lab.store.remedy import remedy_of
from keel_lab.store.stat import Stat

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_CHUNK = 8 << 20  # bytes; a part of a multipart upload
_FEW = 64  # up to here one request a file is cheaper than listing a whole folder, 1,000 files a request
_PREFIX_ONLY = {"s3", "gcs"}  # no folders there: creating one would leave an empty object


class Remote:
    """The backend of `Root` on a `pyarrow.fs.FileSystem`. Paths were checked there."""

    def __init__(self, filesystem: pafs.FileSystem, base: str) -> None:
        self._fs: Any = filesystem
        self._base = base.rstrip("/")

    @classmethod
    def from_uri(cls, uri: str, shown: str) -> Remote:
        """Opens a URI and asks once for its root, so that a wrong or unreachable one fails here, under its name.

        Raises:
            UsageError: if the scheme is unknown, the store cannot be reached or refuses us, there is no such bucket, or
                the root is a file.
        """
        import pyarrow as pa
        import pyarrow.fs as pafs

        remedy = "name a folder, s3://BUCKET/PATH or gs://BUCKET/PATH with --storage or KEEL_LAB_STORAGE"
        if uri.startswith("gs://") and "retry_limit_seconds" not in uri:
            uri += ("&" if "?" in uri else "?") + "retry_limit_seconds=30"  # the default tries for 15 minutes
        if uri.startswith("s3://") and "allow_delayed_open" not in uri:
            uri += ("&" if "?" in uri else "?") + "allow_delayed_open=true"  # a small file is one request, not three
        try:
            filesystem, base = pafs.FileSystem.from_uri(uri)
            bucket, found = filesystem.get_file_info([base.partition("/")[0], base])
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"storage {shown} cannot be opened: {reason}; {remedy_of(error) or remedy}") from error
        if filesystem.type_name in _PREFIX_ONLY and bucket.type == pafs.FileType.NotFound:
            raise UsageError(f"storage {shown}: there is no bucket {bucket.path}; create it, or correct its name")
        if found.type == pafs.FileType.File:
            raise UsageError(f"storage {shown} is a file; {remedy}")
        return cls(filesystem, base)

    def read(self, path: str) -> bytes:
        """See `Root.read`."""
        with self._fs.open_input_stream(self._at(path), compression=None) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes, *, synced: bool = True) -> None:
        """See `Root.write`."""
        with self._sink(path) as sink:
            sink.write(content)

    def write_file(self, path: str, source: Path) -> None:
        """See `Root.write_file`."""
        with source.open("rb") as stream, self._sink(path) as sink:
            while chunk := stream.read(_CHUNK):
                sink.write(chunk)

    def exists(self, path: str) -> bool:
        """See `Root.exists`."""
        import pyarrow.fs as pafs

        return bool(self._fs.get_file_info(self._at(path)).type != pafs.FileType.NotFound)

    def stats(self, paths: Sequence[str]) -> dict[str, Stat]:
        """See `Root.stats`."""
        import pyarrow.fs as pafs

        wanted = {self._at(path): path for path in paths}
        query: Any = list(wanted)
        if len(wanted) > _FEW:
            query = pafs.FileSelector(posixpath.commonpath(query), allow_not_found=True, recursive=True)
        found = {}
        for info in self._fs.get_file_info(query):
            if info.type == pafs.FileType.File and info.path in wanted:
                found[wanted[info.path]] = Stat(info.size, self._time(info.mtime_ns))
        return found

    def list(self, folder: str) -> list[str]:
        """See `Root.list`."""
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self._at(folder), allow_not_found=True, recursive=False)
        return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def delete(self, path: str) -> None:
        """See `Root.delete`."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._at(path))

    def local(self, path: str) -> Path | None:
        """See `Root.local`."""
        return None

    def fetch(self, path: str, target: Path) -> None:
        """Downloads the file to `target`, which appears only when it is whole."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with self._fs.open_input_stream(self._at(path), compression=None) as stream, temporary.open("wb") as sink:
                shutil.copyfileobj(stream, sink, _CHUNK)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _at(self, path: str) -> str:
        return posixpath.join(self._base, path).rstrip("/")

    def _time(self, mtime_ns: int | None) -> int:
        if mtime_ns is None:
            return 0
        # On S3 asking for one object tells seconds, and listing may tell milliseconds of the same one (MinIO does).
        return mtime_ns // 10**9 * 10**9 if self._fs.type_name == "s3" else mtime_ns

    def _sink(self, path: str) -> Any:
        target = self._at(path)
        if self._fs.type_name not in _PREFIX_ONLY:
            self._fs.create_dir(posixpath.dirname(target), recursive=True)
        return self._fs.open_output_stream(target, compression=None)
