"""Trials as plain Ray tasks: queueing, resources and elasticity are Ray's, retries are ours (`max_retries=0`)."""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from keel_lab.errors import IncompleteError
from keel_lab.result import Failure, FailureKind, TrialResult
from keel_lab.schedule.executor import Finished, Progress, Task
from keel_lab.schedule.limits import Limits, overtime, until_sigterm
from keel_lab.schedule.ray_cluster import RayCluster, capacity, demand, refusal
from keel_lab.schedule.ray_mailbox import DriverMailbox, RayMailbox
from keel_lab.settings import Resources
from keel_lab.trial import Trial

SLOTS_EVERY = 1.0  # seconds between two questions of how large the cluster is; each is a request
NODE = "ray.io/node-id"  # the label that Ray gives every node
PREFLIGHTS = 3  # times that a trial is checked whose process dies of it
GRACE = 60.0  # seconds beyond its time after which an attempt that does not even stop is killed

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
        self._stop = False
        self._closed = False
        self._lost: deque[Finished] = deque()
        self._news: list[Progress] = []
        self._avoided: set[str] = set()
        self._slots, self._slots_until = 1, 0.0
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
        """See `Executor.slots`; follows a cluster that grows or shrinks."""
        if time.monotonic() >= self._slots_until:
            self._slots = max(1, capacity(self._cluster.nodes(), self._resources))
            self._slots_until = time.monotonic() + SLOTS_EVERY
        return self._slots

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """See `Executor.preflight`. It runs on the workers: their imports are then paid for."""
        import ray

        left, problems = list(trials), []
        for again in reversed(range(PREFLIGHTS)):
            asked = [(trial, self._with(self._preflight, trial).remote(trial)) for trial in left]
            left = []
            for trial, ref in asked:
                try:
                    problem = ray.get(ref)
                except ray.exceptions.RayError as error:
                    problem = f"{trial.architecture}, {trial.blocks} blocks: {_failure(error, '').message}"
                    if again and not isinstance(error, ray.exceptions.RayTaskError):  # its process died, or its node
                        left.append(trial)
                        continue
                if problem is not None:
                    problems.append(problem)
        return problems

    def submit(self, task: Task) -> None:
        """See `Executor.submit`."""
        if task.trial.resources != self._resources:
            self._check(task.trial.resources)
        mailbox = self._mailbox.for_trial()
        if task.trial.resources.workers == 1:
            ref = self._with(self._run, task.trial).remote(task, mailbox)
        else:  # it only waits; Ray Train asks for what its workers need
            places = self._places
            ref = self._together.options(num_cpus=0, label_selector=places).remote(task, mailbox, places)
        self._flight[task.trial.id] = (task, ref)
        done = self._done
        ref.future().add_done_callback(lambda future: done.put((task, future)))

    def next_done(self, timeout: float) -> Finished | None:
        """See `Executor.next_done`.

        Raises:
            IncompleteError: if the Ray node of this process died, and is not ours to start again.
        """
        if self._lost:
            return self._lost.popleft()
        self._mailbox.exchange(self._stop, frozenset(self._halted))
        self._end_overdue()
        try:
            task, future = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        error = future.exception()
        if error is not None and self._is_our_end(error):
            self._start_again()
            return self._lost.popleft()
        outcome = future.result() if error is None else error
        if task.trial.id not in self._nodes and not isinstance(outcome, TrialResult):
            self._mailbox.catch_up(self._stop, frozenset(self._halted))
            self._take_news()
        return self._finished(task, outcome)

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
        others = self._cluster.nodes(but_for={*self._avoided, node})
        if not capacity(others, self._resources):
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
        self._run, self._preflight = _remote(_attempt), _remote(_check_trial)
        self._together = _remote(_attempt_together)
        self._mailbox = DriverMailbox()
        self._done: queue.SimpleQueue[tuple[Task, Future[Any]]] = queue.SimpleQueue()
        self._flight: dict[str, tuple[Task, Any]] = {}  # with its reference: Ray forgets a task whose one is gone
        self._hosts: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._begun: dict[str, float] = {}
        self._overdue: set[str] = set()

    def _finished(self, task: Task, outcome: TrialResult | Failure | BaseException) -> Finished:
        trial_id = task.trial.id
        self._halted.discard(trial_id)
        for facts in (self._flight, self._begun):
            facts.pop(trial_id, None)
        host, node = self._hosts.pop(trial_id, ""), self._nodes.pop(trial_id, "")
        if isinstance(outcome, TrialResult):
            return Finished(task, result=outcome, node=node)
        if trial_id in self._overdue:
            self._overdue.discard(trial_id)
            outcome = Failure(FailureKind.TIMEOUT, f"{overtime(task.seconds or 0)}, and it did not stop: killed", host)
        failure = outcome if isinstance(outcome, Failure) else _failure(outcome, host)
        return Finished(task, failure=failure, node=node)

    def _end_overdue(self) -> None:
        """Kills attempts that hang: those that take steps have stopped themselves when their time was over."""
        import ray

        now = time.monotonic()
        for trial_id, begun in self._begun.items():
            task, ref = self._flight[trial_id]
            if task.seconds is not None and now >= begun + task.seconds + GRACE and trial_id not in self._overdue:
                self._overdue.add(trial_id)
                ray.cancel(ref, force=True)

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
        logger.warning("the local Ray has died (was its raylet killed?); it is started again")
        lost = [task for task, _ in self._flight.values()]
        terminate = signal.getsignal(signal.SIGTERM)
        self._cluster.close()
        self._cluster = RayCluster("local")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)  # Ray has put its own in place
        hosts = self._hosts
        self._begin()
        for task in lost:
            failure = Failure(
                FailureKind.PREEMPTED, "the local Ray died, and was started again", hosts.get(task.trial.id, "")
            )
            self._lost.append(Finished(task, failure=failure))

    def _take_news(self) -> None:
        news = self._mailbox.take()
        now = time.monotonic()
        for item in news:
            if item.info.get("host") and item.trial_id in self._flight:
                self._hosts[item.trial_id] = str(item.info["host"])
                self._nodes[item.trial_id] = str(item.info.get("node", "")) or self._nodes.get(item.trial_id, "")
                self._begun.setdefault(item.trial_id, now)
            self._halted.update(self._hear(item))
        self._news += news

    def _check(self, resources: Resources) -> None:
        nodes = self._cluster.nodes()
        may_grow = not self._cluster.local and not any(node.get("CPU") for node in nodes)
        if not may_grow and not capacity(nodes, resources):
            raise refusal(nodes, resources)

    def _with(self, function: Any, trial: Trial) -> Any:
        wanted = demand(trial.resources)
        return function.options(
            num_cpus=wanted["CPU"], num_gpus=wanted["GPU"], memory=wanted["memory"], label_selector=self._places
        )

    @property
    def _places(self) -> dict[str, str] | None:
        return {NODE: f"!in({','.join(sorted(self._avoided))})"} if self._avoided else None


def _remote(function: Any) -> Any:
    import ray

    return ray.remote(max_retries=0, max_calls=0)(function)  # max_calls: else a GPU task ends its worker


def _attempt(task: Task, mailbox: RayMailbox) -> TrialResult | Failure:
    from keel_lab.schedule.worker import attempt, limit_threads

    limit_threads(task.trial.resources.cpus)
    limits = Limits(task.seconds)
    with until_sigterm(limits):
        return attempt(task, mailbox, limits)


def _attempt_together(task: Task, mailbox: RayMailbox, selector: dict[str, str] | None) -> TrialResult | Failure:
    from keel_lab.schedule.ray_group import attempt

    return attempt(task, mailbox, selector)


def _check_trial(trial: Trial) -> str | None:
    from keel_lab.schedule.worker import limit_threads, preflight

    limit_threads(trial.resources.cpus)
    return preflight(trial)


def _failure(error: BaseException, host: str) -> Failure:
    """What a task's death means: Ray names the kinds, and its long texts are cut to their first sentence."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):  # our own code on the worker, such as a package that lacks there
        error = error.cause
    kind, message = FailureKind.CRASH, f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    if isinstance(error, exceptions.WorkerCrashedError):
        message = "the worker process died (killed, or crashed in native code)"
    elif isinstance(error, exceptions.OutOfMemoryError):
        kind, message = FailureKind.OOM, "the node ran out of memory and Ray ended the worker"
    elif isinstance(error, exceptions.NodeDiedError | exceptions.LocalRayletDiedError):
        kind, message = FailureKind.PREEMPTED, "the node was lost"
    return Failure(kind, message, host)
