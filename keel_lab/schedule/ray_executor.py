"""Trials as plain Ray tasks: queueing, resources and elasticity are Ray's, retries are ours (`max_retries=0`)."""

from __future__ import annotations

import logging
import math
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from keel_lab.errors import IncompleteError
from keel_lab.result import Failure, FailureKind, TrialResult, with_shared_facts
from keel_lab.schedule.executor import Finished, Progress, Task
from keel_lab.schedule.limits import overtime
from keel_lab.schedule.node_losses import NodeLosses
from keel_lab.schedule.ray_attempts import Attempt, Attempts
from keel_lab.schedule.ray_cluster import RayCluster, capacity, demand, refusal
from keel_lab.schedule.ray_mailbox import DriverMailbox, beside_driver
from keel_lab.schedule.ray_tasks import (
    NODE_LOST,
    check_all,
    check_trial,
    failure_of,
    not_on,
    remote,
    run_attempt,
    run_together,
    with_demand,
)
from keel_lab.settings import Resources
from keel_lab.trial import Trial

SLOTS_EVERY = 1.0  # seconds between two questions of how large the cluster is; each is a request

logger = logging.getLogger(__name__)


class RayExecutor:
    """Runs tasks on a local Ray of this process or on a cluster (`Executor`)."""

    def __init__(
        self,
        resources: Resources,
        address: str | None = None,
        runtime_env: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        """Starts or joins Ray.

        Args:
            resources: what one trial of the sweep occupies.
            address: a running Ray; else RAY_ADDRESS, else a local Ray that ends with `close`.
            runtime_env: makes what the workers of a running Ray are to have, see `shipping`.

        Raises:
            UsageError: if there is no Ray at the address, or no node of it can ever hold such a trial. A cluster
                without any CPU yet is taken for one that grows on demand.
        """
        self._resources = resources
        self._stop = self._closed = False
        self._lost: deque[Finished] = deque()
        self._news: list[Progress] = []
        self._slots, self._slots_until = 1, 0.0
        self._avoided: set[str] = set()
        self._halted: set[str] = set()
        self._hear: Callable[[Progress], Iterable[str]] = lambda news: ()
        self._cluster = RayCluster(address, runtime_env)
        try:
            self._check(resources)
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        """See `Executor.slots`; follows a cluster that grows or shrinks, which this machine does not."""
        if time.monotonic() >= self._slots_until:
            self._slots = max(1, capacity(self._cluster.nodes(), self._resources))
            self._slots_until = math.inf if self._cluster.local else time.monotonic() + SLOTS_EVERY
        return self._slots

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """See `Executor.preflight`. It runs on the workers: their imports are then paid for."""
        return check_all(trials, lambda trial: self._with(self._preflight, trial).remote(trial))

    def submit(self, task: Task) -> None:
        """See `Executor.submit`."""
        if task.trial.resources != self._resources:
            self._check(task.trial.resources)
        mailbox = self._mailbox.for_trial()
        if task.trial.resources.workers == 1:
            ref = self._with(self._run, task.trial).remote(task, mailbox)
        else:  # it only waits, here; Ray Train asks for what its workers need
            options = self._together.options(num_cpus=0, scheduling_strategy=beside_driver())
            ref = options.remote(task, mailbox, self._places(task.trial))
        done = self._done
        self._attempts.add(task, ref).add_done_callback(lambda future: done.put((task, future)))

    def next_done(self, timeout: float) -> Finished | None:
        """See `Executor.next_done`.

        Raises:
            IncompleteError: if the Ray node of this process died, and is not ours to start again.
        """
        if self._cluster.gone():
            self._start_again()
        if not self._lost:
            self._mailbox.exchange(self._stop, frozenset(self._halted))
            self._end_hanging()
            self._give_up_on_lost_nodes()
        if self._lost:
            return self._lost.popleft()
        try:
            task, future = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        if (attempt := self._attempts.of(future, task)) is None:
            return None
        error = future.exception()
        if error is not None and self._is_our_end(error):
            self._start_again()
            return self._lost.popleft()
        outcome = future.result() if error is None else error
        if not attempt.node and not isinstance(outcome, TrialResult):  # it may have said where it runs
            self._mailbox.catch_up(self._stop, frozenset(self._halted))
            self._take_news()
        return self._finished(attempt, outcome)

    def progress(self) -> Sequence[Progress]:
        """See `Executor.progress`."""
        self._mailbox.exchange(self._stop, frozenset(self._halted))
        self._take_news()
        news, self._news = self._news, []
        return news

    def listen(self, hear: Callable[[Progress], Iterable[str]]) -> None:
        """See `Executor.listen`."""
        self._hear = hear

    def request_stop(self) -> None:
        """See `Executor.request_stop`."""
        self._stop = True

    def avoid(self, node: str) -> bool:
        """See `Executor.avoid`. Ray places what is submitted from here on elsewhere, by the node's own label."""
        if not capacity(self._cluster.nodes(but_for={*self._avoided, node}), self._resources):
            return False
        self._avoided.add(node)
        return True

    def close(self, *, now: bool = False) -> None:
        """See `Executor.close`. Tasks that still run are killed either way; what they had stored stays."""
        if not self._closed:
            self._closed = True
            self._cluster.close()

    def _begin(self) -> None:
        """What lives as long as one connection to Ray."""
        self._run, self._preflight = remote(run_attempt), remote(check_trial)
        self._together = remote(run_together)
        self._mailbox = DriverMailbox()
        self._done: queue.SimpleQueue[tuple[Task, Future[Any]]] = queue.SimpleQueue()
        self._attempts = Attempts()
        self._losses = NodeLosses(self._cluster)

    def _finished(self, attempt: Attempt, outcome: TrialResult | Failure | BaseException) -> Finished:
        self._attempts.end(attempt, died=not isinstance(outcome, TrialResult))
        task, host = attempt.task, attempt.host
        self._halted.discard(task.trial.id)
        if isinstance(outcome, TrialResult):
            return Finished(task, result=with_shared_facts(outcome), node=attempt.node)
        if attempt.overdue:
            outcome = Failure(FailureKind.TIMEOUT, f"{overtime(task.seconds or 0)}, and it did not stop: killed", host)
        failure = outcome if isinstance(outcome, Failure) else failure_of(outcome, host)
        return Finished(task, failure=failure, node=attempt.node)

    def _end_hanging(self) -> None:
        """Kills attempts that hang: those that take steps have stopped themselves when their time was over."""
        import ray

        for attempt in self._attempts.hanging():
            ray.cancel(attempt.ref, force=True)

    def _give_up_on_lost_nodes(self) -> None:
        """Takes what ran on them as failed, and queues again what nobody knows to run: it may be waiting there."""
        import ray

        if self._cluster.local:  # its one node's end is seen by what ran there
            return
        lost = self._losses.new()
        for attempt in self._attempts if lost else ():
            if attempt.node in lost:
                self._lost.append(self._finished(attempt, Failure(FailureKind.PREEMPTED, NODE_LOST, attempt.host)))
            elif not attempt.node:
                ray.cancel(attempt.ref)
                self.submit(attempt.task)

    def _is_our_end(self, error: BaseException) -> bool:
        """Whether the Ray of this very process is gone: its raylet was killed."""
        from ray import exceptions

        if self._cluster.local:
            return isinstance(error, exceptions.NodeDiedError | exceptions.LocalRayletDiedError)
        if isinstance(error, exceptions.LocalRayletDiedError):
            raise IncompleteError(
                "the Ray of this machine has died; what was stored is kept, `keel-lab resume` goes on"
            )
        return False

    def _start_again(self) -> None:
        """A new local Ray; whatever was in flight comes back as preempted."""
        logger.warning("the local Ray has died (was one of its processes killed?); it is started again")
        lost = list(self._attempts)
        terminate = signal.getsignal(signal.SIGTERM)
        self._cluster.close()
        self._cluster = RayCluster("local")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)  # Ray has put its own in place
        self._begin()
        for attempt in lost:
            failure = Failure(FailureKind.PREEMPTED, "the local Ray died, and was started again", attempt.host)
            self._lost.append(Finished(attempt.task, failure=failure))

    def _take_news(self) -> None:
        news = self._mailbox.take()
        # an attempt on a lost node may still speak when that comes back
        self._attempts.hear(item for item in news if not self._losses.known(str(item.info.get("node", ""))))
        for item in news:
            self._halted.update(self._hear(item))
        self._news += news

    def _check(self, resources: Resources) -> None:
        nodes = self._cluster.nodes()
        may_grow = not self._cluster.local and not any(node.get("CPU") for node in nodes)
        if not may_grow and not capacity(nodes, resources):
            raise refusal(nodes, resources)

    def _with(self, function: Any, trial: Trial) -> Any:
        return with_demand(function, demand(trial.resources), self._places(trial))

    def _places(self, trial: Trial) -> dict[str, str] | None:
        """Not on a node that is avoided nor, while there are others, on one on which the trial has died."""
        died = self._attempts.died_on(trial.id)
        others = self._cluster.nodes(but_for=self._avoided | died) if died else ()
        return not_on(self._avoided | died if capacity(others, trial.resources) else self._avoided)
