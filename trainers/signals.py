"""Signals belong to whoever runs the trial: Lightning would take them over while it trains."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lightning.pytorch import Callback, LightningModule, Trainer


class KeepSigterm(Callback):
    """Puts SIGTERM's handler back that Lightning replaces: its own raises SystemExit in the middle of a clean stop."""

    def __init__(self) -> None:
        self._handler = signal.getsignal(signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Comes after Lightning has set its handler; its teardown puts back what it found."""
        if _in_main_thread() and self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Lets KeyboardInterrupt out of `Trainer.fit`, which makes it SystemExit(1) and ignores SIGINT from then on."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        if _in_main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from error


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
