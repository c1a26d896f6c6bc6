"""A log as a table of named columns, whatever kind of file it stands in; the kind is told from the content."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keel_lab.errors import UsageError

KINDS = "judge reads CSV with a header line, JSONL (one object a line) and Parquet"
Cell = Any  # text in CSV; text, number, boolean or None elsewhere


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, read when asked for.

    Attributes:
        source: how messages name it.
        names: of the columns, in the file's order; one that stands twice is there twice.
        load: the cells of a column.
        place: where a row (from 0) stands, such as `line 7`.
    """

    source: str
    names: Sequence[str]
    load: Callable[[str], Sequence[Cell]]
    place: Callable[[int], str] = field(default=lambda row: f"row {row + 1}")


def read_table(path: Path, source: str) -> Table:
    """Reads a file.

    Raises:
        UsageError: if it cannot be read, is of no kind that is read, or has no rows.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{source}: it cannot be read ({(error.strerror or str(error)).lower()})") from error
    if content[:4] == b"PAR1":
        return _parquet(content, source)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: it is no UTF-8 text and no Parquet; {KINDS}") from error
    if not text.strip():
        raise UsageError(f"{source}: it is empty; {KINDS}")
    return _jsonl(text, source) if text.lstrip()[0] in "{[" else _csv(text, source)


def _parquet(content: bytes, source: str) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(io.BytesIO(content)).read()  # read_table cannot hold two columns of one name
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{source}: it is damaged Parquet ({str(error).splitlines()[0]})") from error
    names = table.schema.names
    return Table(source, names, lambda name: table.column(names.index(name)).to_pylist())


def _csv(text: str, source: str) -> Table:
    header = text.lstrip("\r\n").splitlines()[0]
    delimiter = max(",\t;", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append(cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise UsageError(f"{source}: line {reader.line_num}: it is broken CSV ({error})") from error
    names = [name.strip() for name in rows[0]]
    for cells, line in zip(rows, lines, strict=True):
        if len(cells) != len(names) and any(cell.strip() for cell in cells[len(names) :]):
            raise UsageError(f"{source}: line {line}: found {len(cells)} cells under a header of {len(names)}")
    columns = {name: [cells[i] if i < len(cells) else "" for cells in rows[1:]] for i, name in enumerate(names)}
    return Table(source, names, columns.__getitem__, lambda row: f"line {lines[row + 1]}")


def _jsonl(text: str, source: str) -> Table:
    rows: list[dict[str, Cell]] = []
    lines: list[int] = []
    twice: list[str] = []

    def entries(pairs: list[tuple[str, Cell]]) -> dict[str, Cell]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in found if keys.count(key) > 1)
        return found

    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=entries)
        except ValueError as error:
            raise UsageError(f"{source}: line {number}: it is no JSON object on one line ({error}); {KINDS}") from error
        if not isinstance(row, dict):
            raise UsageError(f"{source}: line {number}: found no JSON object; {KINDS}")
        rows.append(row)
        lines.append(number)
    names = list(dict.fromkeys([*(name for row in rows for name in row)]))
    names += [name for name in dict.fromkeys(twice) if name in names]
    return Table(source, names, lambda name: [row.get(name) for row in rows], lambda row: f"line {lines[row]}")
