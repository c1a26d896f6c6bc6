"""What a trainer prints goes to its trial's log: standard output is for our own data, and that of a worker is lost."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO

LIMIT = 2**20  # characters of an attempt that are kept: a line a step of a long run would fill the storage


@contextmanager
def printed_into(log: IO[str]) -> Iterator[None]:
    """Standard output goes to `log`, up to a limit, and to standard error, where whoever debugs a trainer looks."""
    printed = _Printed(log, sys.stderr)
    try:
        with redirect_stdout(printed):
            yield
    finally:
        printed.end()


class _Printed(io.TextIOBase):
    """Stands for standard output; whoever still holds it afterwards writes to standard error alone."""

    def __init__(self, log: IO[str], beside: IO[str]) -> None:
        self._log, self._beside = log, beside
        self._line, self._left, self._ended = "", LIMIT, False

    def write(self, text: str) -> int:
        if not self._ended:
            *lines, line = f"{self._line}{text}".split("\n")
            for whole in lines:
                self._keep(whole)
            self._line = line.rpartition("\r")[2]  # a progress bar overwrites its line
        self._beside.write(text)
        return len(text)

    def end(self) -> None:
        """The attempt is over."""
        if self._line:
            self._keep(self._line)
        if self._left < 0:
            self._log.write(f"... and {-self._left} more characters that were printed\n")
        self._ended = True

    def _keep(self, line: str) -> None:
        line = f"{line.rpartition(chr(13))[2]}\n"
        self._log.write(line[: max(0, self._left)])
        self._left -= len(line)

    def flush(self) -> None:
        self._beside.flush()

    def isatty(self) -> bool:
        return self._beside.isatty()

    def fileno(self) -> int:
        return self._beside.fileno()

    def writable(self) -> bool:
        return True
