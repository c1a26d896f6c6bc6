"""What Ray's workers run of a trial, and what it means if they die of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keel_lab.result import Failure, FailureKind, TrialResult
from keel_lab.schedule.executor import Task
from keel_lab.schedule.limits import Limits, until_sigterm
from keel_lab.schedule.ray_mailbox import RayMailbox
from keel_lab.trial import Trial

PREFLIGHTS = 3  # times that a trial is checked whose process dies of it
NODE_LOST = "the node was lost"
NODE = "ray.io/node-id"  # the label that Ray gives every node


def remote(function: Any) -> Any:
    """The function as a Ray task that is never retried by Ray."""
    import ray

    return ray.remote(max_retries=0, max_calls=0)(function)  # max_calls: else a GPU task ends its worker


def with_demand(function: Any, wanted: Mapping[str, float], places: Mapping[str, str] | None) -> Any:
    """The Ray task with what it occupies, and where it may run."""
    return function.options(
        num_cpus=wanted["CPU"], num_gpus=wanted["GPU"], memory=wanted["memory"], label_selector=places
    )


def not_on(nodes: Iterable[str]) -> dict[str, str] | None:
    """The label selector for all nodes but these, by their ids; None for any node."""
    out = ",".join(sorted(nodes))
    return {NODE: f"!in({out})"} if out else None


def run_attempt(task: Task, mailbox: RayMailbox) -> TrialResult | Failure:
    """`worker.attempt` in a Ray worker, where SIGTERM means that the trial is preempted."""
    from keel_lab.schedule.worker import attempt, limit_threads

    limit_threads(task.trial.resources.cpus)
    limits = Limits(task.seconds)
    with until_sigterm(limits):
        return attempt(task, mailbox, limits)


def check_trial(trial: Trial) -> str | None:
    """`worker.preflight` in a Ray worker."""
    from keel_lab.schedule.worker import limit_threads, preflight

    limit_threads(trial.resources.cpus)
    return preflight(trial)


def check_all(trials: Sequence[Trial], ask: Callable[[Trial], Any]) -> list[str]:
    """What is wrong with the trials; `ask` starts `check_trial` on one."""
    import ray

    left, problems = list(trials), []
    for again in reversed(range(PREFLIGHTS)):
        asked = [(trial, ask(trial)) for trial in left]
        left = []
        for trial, ref in asked:
            try:
                problem = ray.get(ref)
            except ray.exceptions.RayError as error:
                problem = f"{trial.architecture}, {trial.blocks} blocks: {failure_of(error, '').message}"
                if again and not isinstance(error, ray.exceptions.RayTaskError):  # its process died, or its node
                    left.append(trial)
                    continue
            if problem is not None:
                problems.append(problem)
    return problems


def run_together(task: Task, mailbox: RayMailbox, selector: dict[str, str] | None) -> TrialResult | Failure:
    """`ray_group.attempt`, for a trial of several workers."""
    from keel_lab.schedule.ray_group import attempt

    return attempt(task, mailbox, selector)


def failure_of(error: BaseException, host: str) -> Failure:
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
