"""A trial of several workers (`resources.workers`): a Ray Train group, in which rank 0 does what a single task does.

Ray Train places the workers together, ends all of them when one dies, and says why. Retrying stays ours: the next
attempt goes on from the checkpoint in storage. The torch group is made by `trainers.ranks.join`, not by Ray Train's
TorchTrainer, whose store listens on every interface of the machine.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import socket
import struct
import tempfile
from dataclasses import dataclass, replace
from typing import Any

from keel_lab.result import Failure, FailureKind, TrialResult
from keel_lab.schedule import worker
from keel_lab.schedule.executor import Task
from keel_lab.schedule.follower import follow
from keel_lab.schedule.limits import Limits
from keel_lab.schedule.ray_attempts import WAITING
from keel_lab.schedule.ray_cluster import demand
from keel_lab.schedule.ray_mailbox import RayMailbox
from keel_lab.schedule.session import not_begun
from keel_lab.store.root import Root

RANKS = "trainers.ranks"  # imported by name: this package knows no torch
NOT_BEGUN = -1
QUEUE = 3600.0  # seconds in which workers find no place or do not start, after which Ray Train asks for them anew
SILENCE = 120.0  # seconds in which a worker does not answer Ray Train, after which it counts as lost
_SIOCGIFADDR = 0x8915  # of linux/sockios.h: the address of a network interface


class AttemptFailedError(Exception):
    """What ended a worker, on its way through Ray Train."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def attempt(task: Task, mailbox: RayMailbox, selector: dict[str, str] | None) -> TrialResult | Failure:
    """Runs a task on its workers, from a Ray task of its own that waits for them.

    Args:
        task: its trial says how many, and what each occupies.
        mailbox: rank 0's line to the driver.
        selector: on nodes with which labels; None for any.
    """
    from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    if mailbox.announce(replace(worker.starting(task), state=WAITING))():
        return not_begun(task)
    settled = worker.settled(task, Root.open(task.storage))
    if settled is not None:
        return settled
    resources = task.trial.resources
    os.environ.setdefault("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", str(SILENCE))
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(QUEUE))
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # else a trainer of the user's would look for its files elsewhere
    with tempfile.TemporaryDirectory(prefix="keel-lab-group-") as folder:  # Ray Train wants one; nothing stays in it
        scaling: Any = ScalingConfig(
            num_workers=resources.workers,
            use_gpu=resources.gpus > 0,
            resources_per_worker={name: amount for name, amount in demand(resources).items() if amount},
            label_selector=selector,
        )
        told = {"task": task, "mailbox": mailbox}
        running: Any = RunConfig(name=task.trial.id, storage_path=folder, failure_config=FailureConfig(max_failures=0))
        trainer = DataParallelTrainer(_run_rank, train_loop_config=told, scaling_config=scaling, run_config=running)
        try:
            ended: Any = trainer.fit()
        except TrainingFailedError as error:
            return _failure(error)
        result: TrialResult | Failure = ended.return_value
        return result


def _run_rank(config: dict[str, Any]) -> TrialResult | Failure | None:
    """What each worker does; Ray Train hands on what rank 0 returns."""
    from ray.train import get_context

    task, context = config["task"], get_context()
    worker.limit_threads(task.trial.resources.cpus)
    meeting = _Meeting(context.get_world_rank(), context.get_world_size())
    try:
        if meeting.rank:
            step = meeting.hear()
            if step != NOT_BEGUN:
                follow(task, step)
            return None
        return _lead(task, config["mailbox"], meeting)
    except (Exception, SystemExit) as error:
        raise AttemptFailedError(worker.failure(error)) from error
    finally:
        meeting.close()


def _lead(task: Task, mailbox: RayMailbox, meeting: _Meeting) -> TrialResult | Failure:
    if mailbox.announce(worker.starting(task))():  # here, so that the driver knows the node that the trial runs on
        meeting.call(NOT_BEGUN)
        return not_begun(task)
    return worker.train(task, Root.open(task.storage), mailbox, Limits(task.seconds), meeting.begin)


@dataclass
class _Meeting:
    """How a group comes together: rank 0 says where, and from which step the trial goes on."""

    rank: int
    size: int
    joined: bool = False

    def call(self, step: int) -> None:
        """Rank 0: tells the others, and waits until all are in the group."""
        from ray.train.collective import broadcast_from_rank_zero

        host = _own_address()
        with socket.create_server((host, 0)) as listener:
            port = listener.getsockname()[1]
            broadcast_from_rank_zero({"step": step, "host": host, "port": port})
            if step != NOT_BEGUN:
                self._join(host, port, listener.detach())

    def begin(self, step: int) -> bool:
        """Rank 0: `call`, and then it goes on."""
        self.call(step)
        return False

    def hear(self) -> int:
        """The others: the step, once they are in the group."""
        from ray.train.collective import broadcast_from_rank_zero

        said: dict[str, Any] = broadcast_from_rank_zero({})
        if said["step"] != NOT_BEGUN:
            self._join(said["host"], said["port"], None)
        return int(said["step"])

    def close(self) -> None:
        """Leaves the group."""
        if self.joined:
            importlib.import_module(RANKS).leave()

    def _join(self, host: str, port: int, listener: int | None) -> None:
        interface = _interface(_own_address())
        importlib.import_module(RANKS).join(self.rank, self.size, host, port, interface, listener)
        self.joined = True


def _own_address() -> str:
    """What Ray calls this node by."""
    from ray import util

    look_up: Any = util.get_node_ip_address
    return str(look_up())


def _interface(address: str) -> str:
    """The network interface with this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # an interface without an IPv4 address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    raise RuntimeError(f"no network interface has the address {address}, by which Ray calls this node")


def _failure(error: Exception) -> Failure:
    """Why a group ended: of several workers the one whose end made the others end."""
    from ray import exceptions

    causes = [_cause(one) for one in getattr(error, "worker_failures", {}).values()]
    deaths = [one for one in causes if isinstance(one, exceptions.RayError)]
    said = [one.failure for one in causes if isinstance(one, AttemptFailedError)]
    if deaths:
        return _of_death(deaths[0])
    own = [one for one in said if not _is_loss_of_others(one)]
    if own or said:
        return sorted(own or said, key=lambda one: (not one.final, one.kind is not FailureKind.OOM))[0]
    return Failure(FailureKind.CRASH, f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])


def _cause(error: BaseException) -> BaseException:
    """What is inside Ray Train's wrappings of a worker's error."""
    inner = getattr(error, "_base_exc", None) or getattr(error, "health_check_failure", None) or error.__cause__
    return error if inner is None or isinstance(error, AttemptFailedError) else _cause(inner)


def _is_loss_of_others(failure: Failure) -> bool:
    return any(word in failure.message for word in ("Connection closed by peer", "Connection reset", "NCCL error"))


def _of_death(error: BaseException) -> Failure:
    from ray import exceptions

    if isinstance(error, exceptions.OutOfMemoryError):
        return Failure(FailureKind.OOM, "the node of a worker ran out of memory and Ray ended it")
    if isinstance(error, exceptions.NodeDiedError):
        return Failure(FailureKind.PREEMPTED, "the node of a worker was lost")
    return Failure(FailureKind.CRASH, "a worker process died (killed, or crashed in native code)")
