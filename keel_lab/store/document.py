"""Versioned JSON documents: every file says its schema; older ones are read, newer ones refused, damaged ones named.

Non-finite numbers are written as Python's json does (`NaN`, `Infinity`): the loss of a diverged run must survive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from keel_lab.errors import NewerSchemaError, UsageError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class DamagedError(ValueError):
    """A stored file is not what was written: torn, overwritten or edited. The message names the file."""


def dump(data: Mapping[str, Any], schema: int, indent: int | None = 1) -> bytes:
    """The document as JSON with its schema version; keys keep their order. Without `indent` it is ten times faster."""
    return (json.dumps({"schema": schema, **data}, indent=indent, ensure_ascii=False) + "\n").encode()


def parse(content: bytes, place: str, schema: int) -> dict[str, Any]:
    """Inverse of `dump`, without the schema.

    Args:
        content: the file's bytes.
        place: the file as it is to be named in errors.
        schema: the newest schema that is understood.

    Raises:
        DamagedError: if it is not a versioned JSON object.
        NewerSchemaError: if its schema is newer.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{place} is damaged: not JSON ({error})") from error
    version = data.pop("schema", None) if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise DamagedError(f"{place} is damaged: not a JSON object with a schema version")
    if version > schema:
        raise NewerSchemaError(place, version, schema)
    return dict(data)


def is_name(name: str) -> bool:
    """Whether it can be one part of a stored path; see `check_name`."""
    return _NAME.fullmatch(name) is not None


def check_name(kind: str, name: str) -> str:
    """Returns `name` if it can safely be one part of a stored path.

    Raises:
        UsageError: if it is anything but letters, digits, `-`, `_` and `.`, or starts with `-` or `.`.
    """
    if not is_name(name):
        raise UsageError(
            f"{kind} name {name!r}: it becomes a folder; write up to 128 letters, digits, '-', '_' and '.', the "
            "first a letter, digit or '_'"
        )
    return name
