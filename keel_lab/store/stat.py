"""What tells whether a stored file is still the one that was read."""

from __future__ import annotations

from typing import NamedTuple


class Stat(NamedTuple):
    """Size in bytes and modification time in nanoseconds (0 where a store does not tell)."""

    size: int
    mtime_ns: int
