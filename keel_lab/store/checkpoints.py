"""A trial's checkpoints: files named by content, committed by a pointer written last.

`checkpoints/STEP-HASH.ckpt` with the curve and timing so far; `checkpoints/last.json` names them with sizes and hashes.
Checkpoints for forks to start from stay in `kept/`, one pointer a step. Names by content keep a second checkpoint of
the same step from touching the files that the pointer speaks of.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from keel_lab.curve import Curve
from keel_lab.store.committed import Files, StoredFile, path_of, read_curve
from keel_lab.store.document import DamagedError, dump, parse
from keel_lab.store.root import Root

SCHEMA = 1
_POINTER = "checkpoints/last.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredCheckpoint:
    """A whole checkpoint: the trainer's `file`, written after `step` updates, and the curve up to there."""

    step: int
    file: Path
    curve: Curve


def put(root: Root, trial_id: str, step: int, file: Path, curve: Curve) -> None:
    """Stores a checkpoint and then deletes older ones; killed at any moment, the last whole one is found."""
    stem = _write(root, trial_id, "checkpoints", "last.json", step, file, curve)
    for name in root.list(path_of(trial_id, "checkpoints")):
        if name != "last.json" and not name.startswith(f"{stem}."):
            root.delete(path_of(trial_id, f"checkpoints/{name}"))


def keep(root: Root, trial_id: str, step: int, file: Path, curve: Curve) -> None:
    """Stores a checkpoint that stays: `kept/STEP.json` names it. Forks start from it."""
    _write(root, trial_id, "kept", f"{step}.json", step, file, curve)


def before(root: Root, trial_id: str, step: int, into: Path) -> StoredCheckpoint | None:
    """The latest whole checkpoint of a trial, kept or last, written after at most `step` updates; None if none is.

    Raises:
        NewerSchemaError: if one is of a newer schema.
    """
    names = (name.removesuffix(".json") for name in root.list(path_of(trial_id, "kept")) if name.endswith(".json"))
    steps = {int(name): f"kept/{name}.json" for name in names if name.isdecimal() and int(name) <= step}
    newest = last_step(root, trial_id)
    if newest is not None and newest <= step:
        steps[newest] = _POINTER
    for _, pointer in sorted(steps.items(), reverse=True):
        found = _read(root, trial_id, pointer, into, "an earlier one is taken")
        if found is not None:
            return found
    return None


def last(root: Root, trial_id: str, into: Path) -> StoredCheckpoint | None:
    """The last checkpoint, fetched into the folder `into` if storage is remote; None if there is none.

    A torn or damaged one is warned of by name and counts as none.

    Raises:
        NewerSchemaError: if it is of a newer schema.
    """
    return _read(root, trial_id, _POINTER, into, f"trial {trial_id} starts from its beginning")


def last_step(root: Root, trial_id: str) -> int | None:
    """After how many updates the last checkpoint was written, by its pointer alone; None if there is none to read."""
    path = path_of(trial_id, _POINTER)
    try:
        return _parts(parse(root.read(path), f"{root}/{path}", SCHEMA), f"{root}/{path}")[0]
    except (FileNotFoundError, DamagedError):
        return None


def _write(root: Root, trial_id: str, folder: str, pointer: str, step: int, file: Path, curve: Curve) -> str:
    """Writes checkpoint, curve and timing, then the pointer that commits them; returns the stem of their names."""
    content, timing = curve.to_parquet(), curve.timing_to_parquet()
    size, sha256 = _measure(file)
    stem = f"{step}-{hashlib.sha256(sha256.encode() + content + timing).hexdigest()[:12]}"
    checkpoint = StoredFile(f"{folder}/{stem}.ckpt", size, sha256)
    files = Files(
        StoredFile.of(f"{folder}/{stem}.parquet", content),
        StoredFile.of(f"{folder}/{stem}.timing.parquet", timing),
    )
    root.write_file(path_of(trial_id, checkpoint.name), file)
    root.write(path_of(trial_id, files.curve.name), content)
    root.write(path_of(trial_id, files.timing.name), timing)
    body = {"step": step, "checkpoint": checkpoint._asdict(), "files": files.to_json()}
    root.write(path_of(trial_id, f"{folder}/{pointer}"), dump(body, SCHEMA))
    return stem


def _read(root: Root, trial_id: str, pointer: str, into: Path, consequence: str) -> StoredCheckpoint | None:
    path = path_of(trial_id, pointer)
    try:
        step, record, files = _parts(parse(root.read(path), f"{root}/{path}", SCHEMA), f"{root}/{path}")
        file = _fetch(root, trial_id, record, into)
        return StoredCheckpoint(step, file, read_curve(root, trial_id, files))
    except FileNotFoundError:
        return None
    except DamagedError as error:
        _log.warning("%s; %s", error, consequence)
        return None


def _parts(pointer: dict[str, object], place: str) -> tuple[int, StoredFile, Files]:
    match pointer:
        case {"step": int(step), "checkpoint": dict(record), "files": dict(files)}:
            try:
                return step, StoredFile.from_json(record), Files.from_json(files)
            except (KeyError, TypeError, ValueError) as error:
                raise DamagedError(f"{place} is damaged: {error}") from error
    raise DamagedError(f"{place} is damaged: not a checkpoint pointer")


def _fetch(root: Root, trial_id: str, record: StoredFile, into: Path) -> Path:
    path = path_of(trial_id, record.name)
    try:
        file = root.fetch(path, into)
    except FileNotFoundError:
        raise DamagedError(f"{root}/{path} is missing") from None
    if _measure(file) != (record.size, record.sha256):
        raise DamagedError(f"{root}/{path} is damaged: size or sha256 is not the recorded one")
    return file


def _measure(file: Path) -> tuple[int, str]:
    with file.open("rb") as stream:
        return file.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest()
