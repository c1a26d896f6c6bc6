"""The attempts that a Ray executor has under way: what each is, where it runs, and since when."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from keel_lab.schedule.executor import Progress, Task

WAITING = "waiting"  # the state of a trial whose workers have no place yet: its time has not begun
GRACE = 60.0  # seconds beyond its time after which an attempt that does not even stop is killed


@dataclass
class Attempt:
    """One of them.

    Attributes:
        ref: Ray forgets a task whose reference is gone.
        future: tells of its end.
        host, node: where it runs; empty until its first news.
        begun: monotonic seconds of that news.
        overdue: whether it was killed since it hangs.
    """

    task: Task
    ref: Any
    future: Future[Any]
    host: str = ""
    node: str = ""
    begun: float | None = None
    overdue: bool = False


class Attempts:
    """By trial."""

    def __init__(self) -> None:
        self._by_trial: dict[str, Attempt] = {}
        self._died_on: dict[str, set[str]] = {}  # a host that breaks trials is idle first, and takes the next

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self._by_trial.values()))

    def add(self, task: Task, ref: Any) -> Future[Any]:
        """One more, whose end the future tells."""
        attempt = Attempt(task, ref, ref.future())
        self._by_trial[task.trial.id] = attempt
        return attempt.future

    def of(self, future: Future[Any], task: Task) -> Attempt | None:
        """The attempt that a future is of; None if it was given up before."""
        found = self._by_trial.get(task.trial.id)
        return found if found is not None and found.future is future else None

    def end(self, attempt: Attempt, *, died: bool) -> None:
        """It is not under way any more."""
        self._by_trial.pop(attempt.task.trial.id, None)
        if died and attempt.node:
            self._died_on.setdefault(attempt.task.trial.id, set()).add(attempt.node)

    def died_on(self, trial_id: str) -> set[str]:
        """The nodes on which earlier attempts at a trial died."""
        return self._died_on.get(trial_id, set())

    def hear(self, news: Iterable[Progress]) -> None:
        """A trial's first news says where it runs."""
        for item in news:
            attempt = self._by_trial.get(item.trial_id)
            if attempt is not None and item.info.get("host"):
                attempt.host = str(item.info["host"])
                attempt.node = str(item.info.get("node", "")) or attempt.node
                if item.state != WAITING:
                    attempt.begun = attempt.begun or time.monotonic()

    def hanging(self) -> Iterator[Attempt]:
        """Those that should have stopped themselves `GRACE` ago; each once."""
        now = time.monotonic()
        for attempt in self:
            seconds, begun = attempt.task.seconds, attempt.begun
            if seconds is not None and begun is not None and not attempt.overdue and now >= begun + seconds + GRACE:
                attempt.overdue = True
                yield attempt
