"""The corpora that a sweep can name, and how their text becomes a tokenised shard.

    data: {corpus: stdlib, tokenizer: bytes}    # the sources of the Python standard library that runs the program
    data: {text: "books/**/*.txt", tokenizer: bytes}

Tokens are bytes. Documents come in the order of their names and each ends with a NUL byte, which text does not contain.
The fingerprint covers tokens and split, never names or places: the same text elsewhere is the same corpus.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from keel_lab.architecture import CorpusFacts
from keel_lab.counted import counted
from keel_lab.errors import UsageError
from trainers.data import shard
from trainers.data.split import Split
from trainers.data.unigram import Unigram

FORMAT = 1  # raise when the same text would become other tokens or another split
TOKENIZER = "bytes"
VOCAB = 256
DTYPE = "uint8"
T = TypeVar("T")
MINIMUM = 4_096  # tokens; with fewer, the held-out part is too short to say anything
_END_OF_DOCUMENT = b"\0"
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_FOREIGN_FILES = frozenset({"sitecustomize.py", "usercustomize.py"})  # belong to the machine, not to Python


def facts(data: Mapping[str, Any], folder: Path) -> CorpusFacts:
    """What the planner needs to know of the corpus; reads it once, writes nothing.

    Args:
        data: the sweep's `data` section.
        folder: what a relative `text` pattern is relative to.

    Raises:
        UsageError: if the corpus does not exist, cannot be read, or is too short to be split.
    """
    return _tokenise(_find(data, folder), {name: shard.PartWriter() for name in shard.PARTS}).facts


def prepare(data: Mapping[str, Any], folder: Path, facts: CorpusFacts, destination: Path) -> None:
    """Writes the tokenised shard under `destination`; a whole one that is there already is left alone.

    Files appear under their names only when they are whole, the manifest last. Processes that prepare the same shard at
    once write the same bytes and do not disturb each other.

    Raises:
        UsageError: if the corpus is no longer the one of `facts`, or `destination` holds another or a broken one.
        KeelLabError: if the shard cannot be written.
    """
    if (destination / shard.MANIFEST).exists():
        there = shard.Shard.open(destination)
        there.verify()
        if (found := there.fingerprint) != facts.fingerprint:
            raise UsageError(f"{destination}: holds another corpus ({found}); choose an empty folder")
        return
    documents = _find(data, folder)
    with ExitStack() as files:
        parts = {
            name: shard.PartWriter(files.enter_context(shard.replacing(destination / file)))
            for name, file in shard.PARTS.items()
        }
        tokenised = _tokenise(documents, parts)
        if tokenised.facts != facts:
            raise UsageError(f"{documents.place}: changed while the sweep was being planned; run the command again")
    with shard.replacing(destination / shard.MANIFEST) as stream:
        stream.write(json.dumps(tokenised.manifest, indent=1, sort_keys=True).encode())


@dataclass(frozen=True)
class _Documents:
    """The files of a corpus, in order; `place` names it in messages, `source` is how the sweep file named it."""

    place: str
    source: str
    files: tuple[Path, ...]


def _find(data: Mapping[str, Any], folder: Path) -> _Documents:
    tokenizer = data.get("tokenizer", TOKENIZER)
    if tokenizer != TOKENIZER:
        raise UsageError(f"data.tokenizer: found {tokenizer!r}; allowed: {TOKENIZER}")
    corpus, pattern = data.get("corpus"), data.get("text")
    if (corpus is None) == (pattern is None):
        raise UsageError("data: give exactly one of `corpus: stdlib` and `text: GLOB`")
    if pattern is not None:
        return _matching(str(pattern), folder)
    if corpus != "stdlib":
        raise UsageError(f"data.corpus: found {corpus!r}; allowed: stdlib, or `text: GLOB` for files of your own")
    return _standard_library()


def _standard_library() -> _Documents:
    root = Path(sysconfig.get_paths()["stdlib"])
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _FOREIGN_FOLDERS]
        files += [Path(folder, name) for name in names if name.endswith(".py") and name not in _FOREIGN_FILES]
    if not files:
        raise UsageError(
            f"{root}: this Python comes without the sources of its standard library; "
            "use another Python, or `text: GLOB` for files of your own"
        )
    return _Documents(str(root), "stdlib", _in_order(root, files))


def _matching(pattern: str, folder: Path) -> _Documents:
    place = folder.absolute() / pattern  # an absolute pattern stays as it is
    names = glob.iglob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - Path.glob refuses absolute patterns
    found: dict[str, Path] = {}  # a pattern or a link may lead to a file more than once: its shortest path counts
    for name in sorted(names, key=lambda name: (len(name), name)):
        if (folder / name).is_file():
            found.setdefault(os.path.realpath(folder / name), folder / name)
    files = list(found.values())
    if not files:
        raise UsageError(f"{place}: data.text matches no file; correct the pattern (relative ones start at {folder})")
    return _Documents(str(place), pattern, _in_order(folder, files))


def _in_order(root: Path, files: list[Path]) -> tuple[Path, ...]:
    return tuple(sorted(files, key=lambda file: Path(os.path.relpath(file, root)).as_posix()))


@dataclass(frozen=True)
class _Tokenised:
    facts: CorpusFacts
    manifest: dict[str, Any]


def _tokenise(documents: _Documents, parts: Mapping[str, shard.PartWriter]) -> _Tokenised:
    """Streams the documents through the split into `parts`; memory holds one document at a time."""
    sizes = [_reading(file, Path.stat).st_size for file in documents.files]
    total = sum(sizes) + len(sizes) * len(_END_OF_DOCUMENT)
    if total < MINIMUM:
        raise UsageError(
            f"{documents.place}: only {total} tokens in {counted(len(sizes), 'file')}; at least {MINIMUM} are needed "
            "for a training and a held-out part: add text"
        )
    split, position, counts = Split.of(total), 0, np.zeros(VOCAB, dtype=np.int64)
    for file in documents.files:
        content = memoryview(_reading(file, Path.read_bytes) + _END_OF_DOCUMENT)
        for held_out, first, last in split.pieces(position, len(content)):
            piece = content[first:last]
            parts["heldout" if held_out else "train"].write(piece)
            if not held_out:
                counts += np.bincount(np.frombuffer(piece, dtype=DTYPE), minlength=VOCAB)
        position += len(content)
    if position != total:
        raise UsageError(f"{documents.place}: files changed while they were being read; run the command again")
    return _describe(documents, split, parts, counts)


def _reading(file: Path, how: Callable[[Path], T]) -> T:
    try:
        return how(file)
    except OSError as error:
        raise UsageError(f"{file.absolute()}: cannot be read: {error.strerror}; fix it or narrow data.text") from error


def _describe(
    documents: _Documents, split: Split, parts: Mapping[str, shard.PartWriter], counts: npt.NDArray[np.int64]
) -> _Tokenised:
    content: dict[str, Any] = {
        "format": FORMAT,
        "tokenizer": TOKENIZER,
        "vocab": VOCAB,
        "dtype": DTYPE,
        "split": split.to_json(),
        **{name: {"tokens": part.size, "sha256": part.sha256} for name, part in parts.items()},
    }
    fingerprint = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    unigram = Unigram(counts)
    manifest = content | {
        "schema": shard.SCHEMA,
        "fingerprint": fingerprint,
        "unigram_counts": counts.tolist(),
        "unigram_entropy": unigram.entropy,
        "chance": unigram.chance,
    }
    known = CorpusFacts(fingerprint, parts["train"].size, VOCAB, TOKENIZER, documents.source, parts["heldout"].size)
    return _Tokenised(known, manifest)
