"""Python's collector of reference cycles, held back where thousands of objects are made that have none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """No collection in the block, which is a quarter of the time it takes to read ten thousand results.

    What is made there must refer to itself nowhere. A block inside another one changes nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
