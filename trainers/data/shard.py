"""A tokenised corpus on disk: `train.bin`, `heldout.bin` and the manifest that commits them."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keel_lab.errors import KeelLabError, UsageError
from trainers.data.sampler import Tokens
from trainers.data.unigram import Unigram

SCHEMA = 1
MANIFEST = "manifest.json"
PARTS = {"train": "train.bin", "heldout": "heldout.bin"}


@dataclass(frozen=True)
class Shard:
    """An opened shard; tokens are memory-mapped and shared by all processes that open it.

    Attributes:
        fingerprint: as in `Trial.data`.
        vocab: number of token ids.
        train, heldout: (n,) token ids, read-only.
        unigram: table of the training tokens.
    """

    folder: Path
    fingerprint: str
    vocab: int
    train: Tokens
    heldout: Tokens
    unigram: Unigram

    @classmethod
    def open(cls, folder: Path) -> Shard:
        """Opens and checks schema and sizes; `verify` checks the content.

        Raises:
            UsageError: if the folder holds no whole shard of a schema this version reads.
        """
        manifest = read_manifest(folder)
        parts = {}
        for name, file in PARTS.items():
            dtype, tokens = np.dtype(manifest["dtype"]), manifest[name]["tokens"]
            size = (folder / file).stat().st_size if (folder / file).is_file() else None
            if size != tokens * dtype.itemsize:
                raise _broken(folder, f"{file} has {size} bytes instead of {tokens * dtype.itemsize}")
            parts[name] = np.memmap(folder / file, dtype=dtype, mode="r", shape=(tokens,))
        unigram = Unigram(np.asarray(manifest["unigram_counts"], dtype=np.int64))
        return cls(folder, manifest["fingerprint"], manifest["vocab"], parts["train"], parts["heldout"], unigram)

    def verify(self) -> None:
        """Reads every token and compares its sha256 with the manifest's.

        Raises:
            UsageError: naming the file that differs.
        """
        manifest = read_manifest(self.folder)
        for name, file in PARTS.items():
            with (self.folder / file).open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != manifest[name]["sha256"]:
                raise _broken(self.folder, f"{file} does not have the sha256 of its manifest")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the shard in `folder`.

    Raises:
        UsageError: if there is none, it cannot be read, or it is of a newer schema.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        schema = int(manifest["schema"])
        missing = {"fingerprint", "vocab", "dtype", "unigram_counts", *PARTS} - manifest.keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(folder, f"{MANIFEST} cannot be read: {error!r}") from error
    if schema > SCHEMA:
        raise UsageError(
            f"{folder / MANIFEST}: schema {schema}; this keel_lab reads up to {SCHEMA}: install the newer one"
        )
    if missing:
        raise _broken(folder, f"{MANIFEST} lacks {', '.join(sorted(missing))}")
    return manifest  # type: ignore[no-any-return]


def _broken(folder: Path, what: str) -> UsageError:
    return UsageError(f"{folder}: not a whole tokenised shard: {what}; delete the folder and run the sweep again")


class PartWriter:
    """Takes one part's tokens as bytes: hashes, counts, and writes them if it is given a file."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, content: memoryview) -> None:
        """Appends `content`."""
        self._hash.update(content)
        self.size += len(content)
        if self._file is not None:
            self._file.write(content)

    @property
    def sha256(self) -> str:
        """Hex digest of what was written so far."""
        return self._hash.hexdigest()


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name of its own, renamed to `target` at the end and removed on any failure.

    Raises:
        KeelLabError: if it cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise KeelLabError(f"{target}: cannot be written: {error}; free space or choose another --storage") from error
    finally:
        temporary.unlink(missing_ok=True)
