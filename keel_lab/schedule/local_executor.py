"""Trials in this very process, one at a time: for debugging, where a breakpoint in a trainer should just work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from keel_lab.result import TrialResult
from keel_lab.schedule import worker
from keel_lab.schedule.executor import Finished, Progress, Task
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.trial import Trial


class LocalExecutor:
    """Runs a task inside `next_done`, whose timeout therefore means nothing (`Executor`).

    Resources are not enforced: the process has what it has. A trial that crashes natively takes the driver with it.
    """

    def __init__(self) -> None:
        self._queue: deque[Task] = deque()
        self._mailbox = LocalMailbox()
        self._stop = False

    @property
    def slots(self) -> int:
        """One."""
        return 1

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """See `Executor.preflight`."""
        problems = [problem for trial in trials if (problem := worker.preflight(trial)) is not None]
        several = max((trial.resources.workers for trial in trials), default=1)
        if several > 1:
            problems.append(
                f"resources.workers: found {several}, but --executor local trains in one process; leave it out, or set "
                "workers: 1"
            )
        return problems

    def submit(self, task: Task) -> None:
        """See `Executor.submit`."""
        self._queue.append(task)

    def next_done(self, timeout: float) -> Finished | None:
        """Runs the next queued task to its end; None at once if there is none."""
        if not self._queue:
            return None
        task = self._queue.popleft()
        self._mailbox.stop_requested = self._stop
        outcome = worker.attempt(task, self._mailbox)
        if isinstance(outcome, TrialResult):
            return Finished(task, result=outcome)
        return Finished(task, failure=outcome)

    def progress(self) -> Sequence[Progress]:
        """See `Executor.progress`."""
        return self._mailbox.drain()

    def listen(self, hear: Callable[[Progress], Iterable[str]]) -> None:
        """See `Executor.listen`. The one trial that runs can be stopped only by its own news."""
        self._mailbox.hear = hear

    def request_stop(self) -> None:
        """See `Executor.request_stop`."""
        self._stop = self._mailbox.stop_requested = True

    def avoid(self, node: str) -> bool:
        """See `Executor.avoid`: there is this process only."""
        return False

    def close(self, *, now: bool = False) -> None:
        """Drops what is queued."""
        self._queue.clear()
