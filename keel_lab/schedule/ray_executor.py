"""Trials as plain Ray tasks: queueing, resources and elasticity are Ray's, retries are ours (`max_retries=0`)."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from keel_lab.result import Failure, FailureKind, TrialResult
from keel_lab.schedule.executor import Finished, Progress, Task
from keel_lab.schedule.node_losses import NodeLosses
from keel_lab.schedule.ray_cluster import RayCluster, capacity, demand, refusal
from keel_lab.schedule.ray_mailbox import DriverMailbox, RayMailbox, beside_driver
from keel_lab.settings import Resources
from keel_lab.trial import Trial

NODE_LOST = "the node was lost"
NODE = "ray.io/node-id"  # the label that Ray gives every node


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
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._flight: dict[Future[Any], tuple[Task, Any]] = {}  # Ray forgets a task whose reference is gone
        self._lost: deque[Finished] = deque()
        self._hosts: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._avoided: set[str] = set()
        self._died_on: dict[
            str, set[str]
        ] = {}  # by trial id: a host that breaks trials is idle first, and takes the next
        self._cluster = RayCluster(address, runtime_env)
        self._losses = NodeLosses(self._cluster)
        try:
            self._check(resources)
            self._run, self._preflight = _remote(_attempt), _remote(_check_trial)
            self._together = _remote(_attempt_together)
            self._mailbox = DriverMailbox()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        """See `Executor.slots`; follows a cluster that grows or shrinks."""
        return max(1, capacity(self._cluster.nodes(), self._resources))

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """See `Executor.preflight`. It runs on the workers: their imports are then paid for."""
        import ray

        problems = []
        for trial, ref in [(trial, self._with(self._preflight, trial).remote(trial)) for trial in trials]:
            try:
                problem = ray.get(ref)
            except ray.exceptions.RayError as error:
                problem = f"{trial.architecture}, {trial.blocks} blocks: {_failure(error, '').message}"
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
        else:  # it only waits, here; Ray Train asks for what its workers need
            options = self._together.options(num_cpus=0, scheduling_strategy=beside_driver())
            ref = options.remote(task, mailbox, self._places(task.trial))
        future = ref.future()
        self._flight[future] = task, ref
        future.add_done_callback(self._done.put)

    def next_done(self, timeout: float) -> Finished | None:
        """See `Executor.next_done`."""
        self._mailbox.exchange(self._stop)
        self._give_up_on_lost_nodes()
        if self._lost:
            return self._lost.popleft()
        try:
            future = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        if future not in self._flight:  # given up before
            return None
        task, _ = self._flight.pop(future)
        error = future.exception()
        outcome = future.result() if error is None else _failure(error, self._hosts.get(task.trial.id, ""))
        node = self._nodes.pop(task.trial.id, "")
        if isinstance(outcome, TrialResult):
            return Finished(task, result=outcome, node=node)
        if node:
            self._died_on.setdefault(task.trial.id, set()).add(node)
        return Finished(task, failure=outcome, node=node)

    def progress(self) -> Sequence[Progress]:
        """See `Executor.progress`."""
        self._mailbox.exchange(self._stop)
        news = self._mailbox.take()
        # a trial's first news says where it runs; an attempt on a lost node may still speak when that comes back
        placed = [item for item in news if item.info.get("node") and not self._losses.known(str(item.info["node"]))]
        self._hosts |= {item.trial_id: str(item.info["host"]) for item in placed}
        self._nodes |= {item.trial_id: str(item.info["node"]) for item in placed}
        return news

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

    def _give_up_on_lost_nodes(self) -> None:
        """Takes what ran on them as failed, and queues again what nobody knows to run: it may be waiting there."""
        import ray

        lost = self._losses.new()
        for future, (task, ref) in list(self._flight.items()) if lost else ():
            node = self._nodes.get(task.trial.id, "")
            if node and node not in lost:
                continue
            del self._flight[future]
            if node:
                failure = Failure(FailureKind.PREEMPTED, NODE_LOST, self._hosts.get(task.trial.id, ""))
                self._lost.append(Finished(task, failure=failure, node=self._nodes.pop(task.trial.id)))
            else:
                ray.cancel(ref)
                self.submit(task)

    def _check(self, resources: Resources) -> None:
        nodes = self._cluster.nodes()
        may_grow = not self._cluster.local and not any(node.get("CPU") for node in nodes)
        if not may_grow and not capacity(nodes, resources):
            raise refusal(nodes, resources)

    def _with(self, function: Any, trial: Trial) -> Any:
        wanted = demand(trial.resources)
        return function.options(
            num_cpus=wanted["CPU"], num_gpus=wanted["GPU"], memory=wanted["memory"], label_selector=self._places(trial)
        )

    def _places(self, trial: Trial) -> dict[str, str] | None:
        """Not on a node that is avoided nor, while there are others, on one on which the trial has died."""
        died = self._died_on.get(trial.id, set())
        others = self._cluster.nodes(but_for=self._avoided | died) if died else []
        out = self._avoided | died if capacity(others, trial.resources) else self._avoided
        return {NODE: f"!in({','.join(sorted(out))})"} if out else None


def _remote(function: Any) -> Any:
    import ray

    return ray.remote(max_retries=0, max_calls=0)(function)  # max_calls: else a GPU task ends its worker


def _attempt(task: Task, mailbox: RayMailbox) -> TrialResult | Failure:
    from keel_lab.schedule.worker import attempt, limit_threads

    limit_threads(task.trial.resources.cpus)
    return attempt(task, mailbox)


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
        kind, message = FailureKind.PREEMPTED, NODE_LOST
    return Failure(kind, message, host)
