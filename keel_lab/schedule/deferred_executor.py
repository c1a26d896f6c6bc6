"""An executor that is opened when the first trial needs it: a sweep of which all is done starts no Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from keel_lab.schedule.executor import Executor, Finished, Progress, Task
from keel_lab.trial import Trial


class DeferredExecutor:
    """Stands for another executor (`Executor`).

    Args:
        open_executor: opens it; what it raises comes out of `open`, else of the first trial's `preflight` or `submit`.
    """

    def __init__(self, open_executor: Callable[[], Executor]) -> None:
        self._open_executor = open_executor
        self._executor: Executor | None = None
        self._stop = False
        self._hear: Callable[[Progress], Iterable[str]] | None = None

    def open(self) -> Executor:
        """Opens it now, if it is not open yet."""
        if self._executor is None:
            self._executor = self._open_executor()
            if self._hear is not None:
                self._executor.listen(self._hear)
            if self._stop:
                self._executor.request_stop()
        return self._executor

    @property
    def is_open(self) -> bool:
        """Whether there is an executor."""
        return self._executor is not None

    @property
    def slots(self) -> int:
        """See `Executor.slots`; one before there is an executor."""
        return 1 if self._executor is None else self._executor.slots

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """See `Executor.preflight`."""
        return self.open().preflight(trials) if trials else ()

    def submit(self, task: Task) -> None:
        """See `Executor.submit`."""
        self.open().submit(task)

    def next_done(self, timeout: float) -> Finished | None:
        """See `Executor.next_done`."""
        return None if self._executor is None else self._executor.next_done(timeout)

    def progress(self) -> Sequence[Progress]:
        """See `Executor.progress`."""
        return () if self._executor is None else self._executor.progress()

    def listen(self, hear: Callable[[Progress], Iterable[str]]) -> None:
        """See `Executor.listen`."""
        self._hear = hear
        if self._executor is not None:
            self._executor.listen(hear)

    def request_stop(self) -> None:
        """See `Executor.request_stop`."""
        self._stop = True
        if self._executor is not None:
            self._executor.request_stop()

    def avoid(self, node: str) -> bool:
        """See `Executor.avoid`."""
        return self._executor is not None and self._executor.avoid(node)

    def close(self, *, now: bool = False) -> None:
        """See `Executor.close`."""
        if self._executor is not None:
            self._executor.close(now=now)
