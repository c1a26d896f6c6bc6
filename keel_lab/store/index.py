"""The compacted index of committed results: one Parquet file instead of thousands of small reads.

It is a cache. A row is trusted only while result.json and the curve it speaks of are the very files the row was made
from; anything else is read again and the file replaced as a whole. Of several drivers writing at once the last one
wins; the rows another one loses are read once more, nothing else. Deleting the file loses nothing.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import math
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, get_type_hints

from keel_lab.errors import NewerSchemaError
from keel_lab.parquet import read_parquet
from keel_lab.result import TrialResult, with_shared_facts
from keel_lab.store.committed import path_of, read_committed, read_trial
from keel_lab.store.document import is_name
from keel_lab.store.root import Root, StorageError
from keel_lab.store.stat import Stat
from keel_lab.trial import Trial

SCHEMA = 1
FILE = "index/results.parquet"
_READERS = 16  # threads; on an object store reading is waiting
_log = logging.getLogger(__name__)


class Row(NamedTuple):
    """What the index knows of one committed trial.

    Attributes:
        size, mtime_ns: of result.json when it was read.
        curve: name of the curve's file beside it.
        curve_size, curve_mtime_ns: of the curve when its bytes were checked.
        shape: `shape_of` its trial; "" if trial.json is missing.
        seconds_per_step: median seconds; NaN if it was not measured.
        finished_at: Unix seconds; NaN if unknown.
        result: the TrialResult as JSON.
    """

    trial_id: str
    size: int
    mtime_ns: int
    curve: str
    curve_size: int
    curve_mtime_ns: int
    shape: str
    seconds_per_step: float
    finished_at: float
    result: str

    def speaks_of(self, result: Stat, curve: Stat | None) -> bool:
        """Whether these are the files the row was made from; a store that tells no time is never trusted."""
        seen = (self.size, self.mtime_ns), (self.curve_size, self.curve_mtime_ns)
        return (result, curve) == seen and self.mtime_ns > 0 and self.curve_mtime_ns > 0


_KINDS: dict[str, type] = get_type_hints(Row)


def shape_of(trial: Trial) -> str:
    """What a step costs by, as a key: architecture, depth, model, vocabulary, batch and precision, without options."""
    facts = {
        "architecture": trial.architecture,
        "blocks": trial.blocks,
        "model": trial.model.model_dump(mode="json"),
        "vocab": None if trial.data is None else trial.data.vocab,
        "batch_size": trial.train.batch_size,
        "accumulate": trial.train.accumulate,
        "precision": trial.train.precision,
    }
    return json.dumps(facts, sort_keys=True)


class Index:
    """The index of one root. Rows read once stay in memory and are checked against the files at every call."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, Row] = {}
        self._loaded: Stat | None = None

    def rows(self, ids: Iterable[str] | None = None) -> dict[str, Row]:
        """The rows of those of the trials (default: of all) that are committed, in the order of `ids`.

        A damaged result or curve is warned of by name and left out.

        Raises:
            NewerSchemaError: if a file is of a newer schema.
        """
        wanted = list(filter(is_name, self._root.list("trials"))) if ids is None else list(ids)
        self._load()
        fresh = self._fresh(wanted)
        found = self._read([trial_id for trial_id in fresh if fresh[trial_id] is None])
        if found:
            self._load()  # what another driver wrote meanwhile is kept
            self._known |= found
            self._save()
        rows = {trial_id: fresh[trial_id] or found.get(trial_id) for trial_id in fresh}
        return {trial_id: row for trial_id, row in rows.items() if row is not None}

    def _fresh(self, ids: list[str]) -> dict[str, Row | None]:
        """Committed trials with their row, or None where it is missing or of another file."""
        results = {path_of(trial_id, "result.json"): trial_id for trial_id in ids}
        curves = {i: path_of(i, self._known[i].curve) for i in ids if i in self._known}
        stats = self._root.stats([*results, *curves.values()])
        fresh: dict[str, Row | None] = {}
        for path, trial_id in results.items():
            if path not in stats:
                self._known.pop(trial_id, None)
                continue
            row = self._known.get(trial_id)
            same = row is not None and row.speaks_of(stats[path], stats.get(curves[trial_id]))
            fresh[trial_id] = row if same else None
        return fresh

    def _read(self, ids: list[str]) -> dict[str, Row]:
        if not ids:
            return {}
        with ThreadPoolExecutor(min(_READERS, len(ids))) as pool:
            rows = pool.map(lambda trial_id: _row(self._root, trial_id), ids)
            return {row.trial_id: row for row in rows if row is not None}

    def _load(self) -> None:
        stat = self._root.stats([FILE]).get(FILE)
        if stat is None or stat == self._loaded:
            return
        try:
            self._known = _decode(self._root.read(FILE)) | self._known
        except FileNotFoundError:  # deleted a moment ago
            return
        except NewerSchemaError as error:
            raise NewerSchemaError(f"{self._root}/{FILE} (a cache: it can be deleted)", error.found, SCHEMA) from error
        except ValueError as error:
            _log.warning("%s/%s is damaged and is made again from the results: %s", self._root, FILE, error)
        self._loaded = stat

    def _save(self) -> None:
        try:
            self._root.write(FILE, _encode(self._known.values()))
        except StorageError as error:  # reading works all the same, only slower next time
            _log.warning("the index is not up to date: %s", error)
            return
        self._loaded = self._root.stats([FILE]).get(FILE)


def rebuild(root: Root) -> int:
    """Makes the index again from the results alone and returns how many there are."""
    root.delete(FILE)
    return len(Index(root).rows())


def _row(root: Root, trial_id: str) -> Row | None:
    committed = read_committed(root, trial_id)
    if committed is None:
        return None
    trial = read_trial(root, trial_id)
    execution = committed.result.execution
    return Row(
        trial_id,
        *committed.stat,
        committed.files.curve.name,
        *committed.curve_stat,
        "" if trial is None else shape_of(trial),
        _number(execution, "seconds_per_step"),
        _number(execution, "finished_at"),
        json.dumps(committed.result.to_json()),
    )


def result_of(row: Row) -> TrialResult:
    """The row's result. A command asks for the same ones several times, and all shares what it is told."""
    return _parsed(row.result)


@functools.lru_cache(maxsize=20_000)
def _parsed(result: str) -> TrialResult:
    from pydantic_core import from_json

    told = TrialResult.from_json(from_json(result, cache_strings="all"))  # json's keys would be new ones every time
    return with_shared_facts(told)


def _number(facts: Mapping[str, object], name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else math.nan


def _encode(rows: Iterable[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = list(zip(*rows, strict=True)) or [()] * len(Row._fields)
    schema = pa.schema(
        [(name, {int: pa.int64(), float: pa.float64(), str: pa.string()}[kind]) for name, kind in _KINDS.items()],
        metadata={"keel_lab_schema": str(SCHEMA)},
    )
    sink = io.BytesIO()
    table = pa.table(dict(zip(Row._fields, map(list, columns), strict=True)), schema=schema)
    pq.write_table(table, sink, compression="zstd", use_dictionary=["curve", "shape"])
    return sink.getvalue()


@functools.lru_cache(maxsize=1)
def _decode(content: bytes) -> dict[str, Row]:
    import pyarrow as pa

    try:
        table = read_parquet(content)
        version = int((table.schema.metadata or {})[b"keel_lab_schema"])
        if version > SCHEMA:
            raise NewerSchemaError("index", version, SCHEMA)
        columns = [table.column(name).to_pylist() for name in Row._fields]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"not an index: {error}") from error
    return {values[0]: Row(*values) for values in zip(*columns, strict=True)}
