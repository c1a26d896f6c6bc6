"""One attempt at a trial, in whatever process an executor runs it."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.own_trainer import DEFAULT
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.schedule.executor import Progress, Task
from keel_lab.schedule.limits import Limits
from keel_lab.schedule.mailbox import Mailbox
from keel_lab.schedule.session import Session, not_begun
from keel_lab.schedule.settled import settle
from keel_lab.schedule.trial_log import trial_log
from keel_lab.schedule.workdir import workdir
from keel_lab.store.patient import PAUSES
from keel_lab.store.root import Root, StorageError
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
STORE_AGAIN_AFTER = PAUSES  # seconds between tries to commit a finished trial

logger = logging.getLogger(__name__)


def attempt(task: Task, mailbox: Mailbox, limits: Limits | None = None) -> TrialResult | Failure:
    """Runs a task and turns whatever its trainer raises into a `Failure`; the traceback goes to the trial's log."""
    try:
        return execute(task, mailbox, limits or Limits(task.seconds))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: any error of a trainer fails one trial only
        return failure(error)


def execute(task: Task, mailbox: Mailbox, limits: Limits) -> TrialResult | Failure:
    """Runs a task to its end: returns a stored result that settles it, or resumes or starts it and commits.

    Returns:
        The result; with outcome `stopped` if the run was asked to stop, and then only its checkpoint is stored. A
        failure, with a checkpoint as well, if it reached its limits.
    """
    stop = mailbox.announce(starting(task))  # the driver is to know where a trial runs that dies early
    root = Root.open(task.storage)
    stored = settled(task, root)
    return stored if stored is not None else train(task, root, mailbox, limits, lambda step: stop())


def starting(task: Task) -> Progress:
    """A trial's first news: where it runs."""
    info = {"host": socket.gethostname(), "pid": os.getpid()}
    return Progress(task.trial.id, 0, float("nan"), "starting", info=info)


def settled(task: Task, root: Root) -> TrialResult | None:
    """The stored result, if it settles the task."""
    trials, trial_id = Trials(root), task.trial.id
    return settle(task.trial, trials.result(trial_id), lambda: trials.curve(trial_id), task.thresholds, task.learn_by)


def train(
    task: Task, root: Root, mailbox: Mailbox, limits: Limits, begins: Callable[[int], bool]
) -> TrialResult | Failure:
    """Resumes or starts a task and commits it, unless it is not even to begin.

    `begins` is told the step it goes on from when all is ready for the trainer, and says whether to stop there.
    """
    with trial_log(task, Trials(root)):
        try:
            return _train(task, root, mailbox, limits, begins)
        except BaseException:
            logger.exception("attempt %d failed", task.attempt)
            raise


def preflight(trial: Trial) -> str | None:
    """Lets the trial's trainer check it; returns what is wrong, as a sentence, or None."""
    try:
        trainer(trial).preflight(trial)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is what is wrong with the trial
        said = str(error) if isinstance(error, KeelLabError | ValueError) else _sentence(error)
        if trial.trainer == DEFAULT:
            return said
        what = f"trainer {trial.trainer} refuses {trial.architecture}, {trial.blocks} blocks"
        return f"{what}: {said}; correct the sweep file, or the trainer's preflight"
    return None


def trainer(trial: Trial) -> Any:
    """The trainer's module, imported by its name."""
    return importlib.import_module(trial.trainer)


def _train(
    task: Task, root: Root, mailbox: Mailbox, limits: Limits, begins: Callable[[int], bool]
) -> TrialResult | Failure:
    with workdir() as folder:
        session = Session(task, root, mailbox, folder, limits)
        step = 0 if session.resume is None else session.resume.step
        if begins(step):
            logger.info("asked to stop before it began")
            return not_begun(task)
        what = f"trial {task.trial.id}: {task.trial.architecture}, {task.trial.blocks} blocks"
        logger.info("%s, from %s", what, f"step {step}" if step else "start")
        trainer(task.trial).run(task.trial, folder, session)
        result = session.result()
        if (failure := session.cut_short()) is not None:
            logger.warning("%s: %s", failure.kind, failure.message)
            return failure
        if result.outcome is not Outcome.STOPPED:
            _patiently(lambda: session.commit(result), session.say)
        logger.info("%s after %d steps: %s", result.outcome, result.steps, result.verdict.status)
        return result


def _patiently(store: Callable[[], None], say: Callable[[str], object]) -> None:
    """Tries again where storage is full or away: hours of training hang on this write."""
    for pause in STORE_AGAIN_AFTER:
        try:
            return store()
        except (OSError, StorageError) as error:
            if isinstance(error, StorageError) and not error.passes:
                raise
            text = f"storing the result failed, next try in {pause:g} s: {error}"
        logger.warning(text)
        say(text)
        time.sleep(pause)
    return store()


def failure(error: BaseException) -> Failure:
    """What an error that ended an attempt means."""
    return Failure(_kind(error), _sentence(error), socket.gethostname(), final=isinstance(error, UsageError))


def limit_threads(cpus: int) -> None:
    """For libraries that are imported from here on; a warm worker's trainer calls torch.set_num_threads as well."""
    os.environ.update(dict.fromkeys(THREADS, str(cpus)))


def _kind(error: BaseException) -> FailureKind:
    oom = isinstance(error, MemoryError) or "out of memory" in str(error).lower()
    return FailureKind.OOM if oom else FailureKind.CRASH


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] + _place(error)


def _place(error: BaseException) -> str:
    """Where a trainer of the user's own raised it; the whole traceback is in the trial's log."""
    frames = [
        f" ({Path(frame.f_code.co_filename).name}:{number})"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not Path(frame.f_code.co_filename).is_relative_to(sys.prefix)
        and not Path(frame.f_code.co_filename).is_relative_to(Path(os.__file__).parent)
        and str(frame.f_globals.get("__name__")).split(".")[0] not in ("keel_lab", "trainers")
    ]
    return frames[-1] if frames else ""
