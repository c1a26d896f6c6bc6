"""The mailbox between trials and driver when they are Ray processes: one small actor beside the driver."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from keel_lab.schedule.executor import Progress

EXCHANGE_EVERY = 0.1  # seconds between two requests of the driver for news, unless it has something to say
ANSWER_DRIVER = 1.0  # seconds that the driver waits for news of a trial that failed
ANSWER_WITHIN = 10.0  # seconds that a trial waits, once, before it begins

logger = logging.getLogger(__name__)


class Box:
    """The actor: holds news until the driver drains them, and the stop flag that rides on every reply."""

    def __init__(self) -> None:
        self._news: list[Progress] = []
        self._stop = False
        self._halted: frozenset[str] = frozenset()

    def post(self, news: Progress) -> bool:
        """Takes news; says whether to stop."""
        self._news.append(news)
        return self._stop or news.trial_id in self._halted

    def drain(self, stop: bool, halted: frozenset[str]) -> list[Progress]:
        """All news since the last call; sets who is to stop. It comes with every call, so a restarted actor knows."""
        self._stop, self._halted = stop, halted
        news, self._news = self._news, []
        return news


def beside_driver() -> Any:
    """The scheduling strategy of what is to be on the driver's own node, if it can be."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


@functools.cache
def _node() -> str:
    """The id of the node that this process runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


class RayMailbox:
    """A trial's end of it (`Mailbox`); pickled into the task."""

    def __init__(self, box: Any) -> None:
        self._box = box
        self._unanswered = False
        self._failed = False
        self.stop_requested = False

    def announce(self, news: Progress) -> Callable[[], bool]:
        """See `Mailbox.announce`. Waits on a future: inside `ray.get` a task's CPU would be lent to another one."""
        from ray.exceptions import RayError

        news = replace(news, info={**news.info, "node": _node()})
        reply: Future[bool] = self._box.post.remote(news).future()

        def stop() -> bool:
            try:
                return bool(reply.result(timeout=ANSWER_WITHIN))
            except (RayError, TimeoutError) as error:
                self._lost(error)
                return False

        return stop

    def post(self, news: Progress) -> bool:
        """See `Mailbox.post`."""
        if self._unanswered:
            return False
        self._unanswered = True
        self._box.post.remote(news).future().add_done_callback(self._answered)
        return True

    def _answered(self, answer: Future[bool]) -> None:
        error = answer.exception()
        if error is None:
            self.stop_requested = answer.result()
        else:
            self._lost(error)
        self._unanswered = False

    def _lost(self, error: BaseException) -> None:
        if not self._failed:
            logger.warning("live news do not reach the driver; the trial goes on: %s", error)
        self._failed = True


class DriverMailbox:
    """The driver's end: starts the actor, collects news and passes the stop flag on without waiting."""

    def __init__(self) -> None:
        import ray

        actor: Any = ray.remote(Box)
        self._box = actor.options(num_cpus=0, max_restarts=-1, scheduling_strategy=beside_driver()).remote()
        self._pending: Any = None
        self._news: list[Progress] = []
        self._said: tuple[bool, frozenset[str]] = (False, frozenset())
        self._due = 0.0

    def for_trial(self) -> RayMailbox:
        """A fresh end for one trial."""
        return RayMailbox(self._box)

    def exchange(self, stop: bool, halted: frozenset[str] = frozenset()) -> None:
        """Takes in the reply to the last request, if it is there, and sends the next one, now and then."""
        if time.monotonic() >= self._due or (stop, halted) != self._said:
            self._exchange(stop, halted, 0.0)

    def catch_up(self, stop: bool, halted: frozenset[str] = frozenset()) -> None:
        """Takes in all there is, waiting for it a little: who died may have said before where it ran."""
        for _ in range(2):  # the request under way may have been answered too early
            self._exchange(stop, halted, ANSWER_DRIVER)
        self._exchange(stop, halted, 0.0)

    def _exchange(self, stop: bool, halted: frozenset[str], patience: float) -> None:
        import ray

        if self._pending is not None:
            ready, _ = ray.wait([self._pending], timeout=patience)
            if not ready:
                return
            try:
                self._news += ray.get(self._pending)
            except ray.exceptions.RayError as error:
                logger.warning("live news were lost: %s", error)
        self._pending, self._said = self._box.drain.remote(stop, halted), (stop, halted)
        self._due = time.monotonic() + EXCHANGE_EVERY

    def take(self) -> Sequence[Progress]:
        """News that have arrived."""
        news, self._news = self._news, []
        return news
