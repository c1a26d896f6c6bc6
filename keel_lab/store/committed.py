"""What a committed trial is on disk: result.json, which names the curve it speaks of with that file's size and hash.

A second commit (the trial went on under other thresholds) writes a curve of another name and then replaces result.json,
so that a reader finds the old pair or the new one, whatever was killed in between. The older curve stays.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from keel_lab.curve import SCHEMA as CURVE_SCHEMA
from keel_lab.curve import Curve
from keel_lab.errors import NewerSchemaError
from keel_lab.result import SCHEMA, TrialResult
from keel_lab.store.document import DamagedError, check_name, parse
from keel_lab.store.root import Root, inside
from keel_lab.store.stat import Stat
from keel_lab.trial import SCHEMA as TRIAL_SCHEMA
from keel_lab.trial import Trial

_log = logging.getLogger(__name__)


class StoredFile(NamedTuple):
    """A file beside result.json: its name, bytes and sha256."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, content: bytes) -> StoredFile:
        """The record of a file with this content."""
        return cls(name, len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StoredFile:
        """Inverse of `_asdict`; TypeError or ValueError if it is none, or names a file that is not the trial's own."""
        record = cls(**data)
        if not (isinstance(record.name, str) and inside(record.name)):
            raise ValueError(f"it names the file {record.name!r}")
        return record


class Files(NamedTuple):
    """The files a result speaks of."""

    curve: StoredFile
    timing: StoredFile

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: record._asdict() for name, record in self._asdict().items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Files:
        """Inverse of `to_json`; KeyError, TypeError or ValueError if it is none."""
        return cls(StoredFile.from_json(data["curve"]), StoredFile.from_json(data["timing"]))


class Committed(NamedTuple):
    """A valid result with the files it was read from; `curve_stat` is of the curve whose bytes were checked."""

    result: TrialResult
    files: Files
    stat: Stat
    curve_stat: Stat


def path_of(trial_id: str, name: str) -> str:
    """The stored path of one of a trial's files."""
    return f"trials/{check_name('trial', trial_id)}/{name}"


def read_result(root: Root, trial_id: str) -> tuple[TrialResult, Files] | None:
    """result.json as it stands; None if there is none.

    Raises:
        DamagedError: if it is not a result of this trial.
        NewerSchemaError: if it is of a newer schema.
    """
    path = path_of(trial_id, "result.json")
    try:
        content = root.read(path)
    except FileNotFoundError:
        return None
    place = f"{root}/{path}"
    data = parse(content, place, SCHEMA)
    try:
        result, files = TrialResult.from_json({**data, "schema": SCHEMA}), Files.from_json(data["files"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{place} is damaged: {error}") from error
    if result.trial_id != trial_id:
        raise DamagedError(f"{place} is damaged: it is the result of trial {result.trial_id}")
    return result, files


def read_committed(root: Root, trial_id: str) -> Committed | None:
    """The trial's result if it is whole, curve included; a damaged one is warned of by name and counts as none.

    Raises:
        NewerSchemaError: if it is of a newer schema.
    """
    path = path_of(trial_id, "result.json")
    stat = root.stats([path]).get(
        path
    )  # before reading: if the file is replaced meanwhile, the index sees another stat
    try:
        found = read_result(root, trial_id)
        if found is None or stat is None:
            return None
        result, files = found
        curve_path = path_of(trial_id, files.curve.name)
        curve_stat = root.stats([curve_path]).get(curve_path, Stat(0, 0))
        read_file(root, trial_id, files.curve)
    except DamagedError as error:
        _log.warning("%s; the trial counts as not done, and `keel-lab resume` of its sweep runs it again", error)
        return None
    return Committed(result, files, stat, curve_stat)


def read_curve(root: Root, trial_id: str, files: Files) -> Curve:
    """The curve that a result speaks of; its seconds are NaN, with a warning, if only the timing is damaged.

    Raises:
        DamagedError: if the curve is missing or not the one that was committed.
        NewerSchemaError: if it is of a newer schema.
    """
    content, timing = read_file(root, trial_id, files.curve), None
    try:
        timing = read_file(root, trial_id, files.timing)
    except DamagedError as error:
        _log.warning("%s; the curve is read without its seconds", error)
    place = f"{root}/{path_of(trial_id, files.curve.name)}"
    try:
        return Curve.from_parquet(content, timing)
    except NewerSchemaError as error:
        raise NewerSchemaError(place, error.found, CURVE_SCHEMA) from error
    except ValueError as error:
        raise DamagedError(f"{place} is damaged: {error}") from error


def read_file(root: Root, trial_id: str, record: StoredFile) -> bytes:
    """The bytes of a file that was recorded.

    Raises:
        DamagedError: if it is missing or other than recorded.
    """
    path = path_of(trial_id, record.name)
    try:
        content = root.read(path)
    except FileNotFoundError:
        raise DamagedError(f"{root}/{path} is missing") from None
    if StoredFile.of(record.name, content) != record:
        raise DamagedError(f"{root}/{path} is damaged: size or sha256 is not the recorded one")
    return content


def read_trial(root: Root, trial_id: str) -> Trial | None:
    """trial.json; None if there is none or, with a warning, if it is damaged.

    Raises:
        NewerSchemaError: if it is of a newer schema.
    """
    path = path_of(trial_id, "trial.json")
    try:
        data = parse(root.read(path), f"{root}/{path}", TRIAL_SCHEMA)
        return Trial.model_validate(data["trial"], strict=False)
    except FileNotFoundError:
        return None
    except NewerSchemaError:
        raise
    except (KeyError, ValueError) as error:  # pydantic's error and DamagedError are ValueErrors
        _log.warning("%s/%s is damaged: %s", root, path, error)
        return None
