"""Ctrl-C and SIGTERM: the first asks for a graceful stop, the second stops now (DESIGN section 8)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context manager; call `install` once Ray was started, which puts a SIGTERM handler of its own in place.

    Attributes:
        received: the first signal's number, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._listeners: list[Callable[[], None]] = []
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        """128 + the first signal (130 or 143), or None."""
        return None if self.received is None else 128 + self.received

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at the first signal, in the handler: it may only set flags."""
        self._listeners.append(listener)

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            self._before[number] = signal.getsignal(number)
        self.install()
        return self

    def install(self) -> None:
        """Installs the handlers, again if something else (Ray, when it starts) has put its own in their place."""
        if self._is_main():
            for number in SIGNALS:
                signal.signal(number, self._handle)

    @staticmethod
    def _is_main() -> bool:
        """Whether signals come here at all: only a process's main thread may say what they do."""
        return threading.current_thread() is threading.main_thread()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_main():
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
        for listener in self._listeners:
            listener()
