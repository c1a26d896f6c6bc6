"""The folder in which a trainer works: empty when an attempt begins, and made only once for many attempts.

Making and removing a folder can take longer than all else that is done about a short trial; and a folder of its own
for each would stay for ever, checkpoints and all, where an attempt is killed.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keel_lab.schedule.scratch import Scratch

_idle: list[Path] = []  # empty folders of attempts that have ended
_numbers = itertools.count(1)


@contextmanager
def workdir() -> Iterator[Path]:
    """An empty folder of this process, emptied in the end; what a killed process leaves goes with the next one's."""
    folder = _idle.pop() if _idle else _scratch().folder / f"attempt-{next(_numbers)}"
    folder.mkdir(parents=True, exist_ok=True)  # who clears temporary folders by their age may have taken it
    try:
        yield folder
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            _idle.append(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _scratch() -> Scratch:
    scratch, owner = Scratch(), os.getpid()
    atexit.register(lambda: scratch.close() if os.getpid() == owner else None)  # a fork of this process leaves it
    return scratch
