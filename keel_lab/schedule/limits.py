"""What ends an attempt before its trial is over, beside the driver's word: SIGTERM to its process, and its time."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from keel_lab.result import Failure, FailureKind


class Limits:
    """Looked at after every step of one attempt; whichever is reached, the trial checkpoints and counts as failed.

    Attributes:
        preempted: set by SIGTERM: whoever runs this machine wants it back.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """Starts the clock.

        Args:
            seconds: that the attempt may take; None for no bound.
        """
        self.preempted = False
        self._seconds = seconds
        self._until = float("inf") if seconds is None else time.monotonic() + seconds

    @property
    def reached(self) -> bool:
        """Whether to checkpoint and stop."""
        return self.preempted or time.monotonic() >= self._until

    def failure(self, step: int, host: str) -> Failure:
        """What an attempt that was stopped here after so many steps is."""
        if self.preempted:
            return Failure(FailureKind.PREEMPTED, f"its process got SIGTERM; step {step} is stored", host)
        return Failure(FailureKind.TIMEOUT, f"{overtime(self._seconds or 0.0)}; step {step} is stored", host)


def overtime(seconds: float) -> str:
    """That an attempt had as much time as it may have, as a clause."""
    return f"the {seconds:g} s of budget.trial_time were over"


@contextlib.contextmanager
def until_sigterm(limits: Limits) -> Iterator[None]:
    """SIGTERM to this process asks for a checkpoint; a second one does what it did before.

    Ray's worker would raise SystemExit in the middle of a step, which loses what was trained since the last checkpoint.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may signals be handled
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        limits.preempted = True
        signal.signal(signal.SIGTERM, before)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
