"""The part of a trial's workers but for rank 0, which alone reports: they train, and hear of it what to do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NoReturn

from keel_lab.curve import Step
from keel_lab.errors import KeelLabError
from keel_lab.schedule.executor import Task
from keel_lab.schedule.local_data import data_folder
from keel_lab.schedule.reporting import Resume
from keel_lab.schedule.resuming import stored_checkpoint
from keel_lab.schedule.workdir import workdir
from keel_lab.schedule.worker import trainer
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials


def follow(task: Task, step: int) -> None:
    """Runs the trainer beside rank 0's, to its end.

    Args:
        task: the attempt.
        step: after which update rank 0's checkpoint was written; 0 without one.

    Raises:
        KeelLabError: if storage has another checkpoint by now.
    """
    root = Root.open(task.storage)
    with workdir() as folder:
        stored = stored_checkpoint(task.trial, Trials(root), folder / "resumed") if step else None
        found = 0 if stored is None else stored.step
        if found != step:
            raise KeelLabError(
                f"trial {task.trial.id}: rank 0 goes on from step {step}, but here the last checkpoint is of step "
                f"{found}: something else is writing them; the attempt is made again"
            )
        resume = None if stored is None else Resume(step, stored.file)
        trainer(task.trial).run(task.trial, folder, Follower(task, root, resume))


class Follower:
    """The `Report` of a rank that does not report: where to go on, and the data.

    Attributes:
        resume: see `Report.resume`; this rank's own copy.
    """

    checkpoint_due = False
    finished = False

    def __init__(self, task: Task, root: Root, resume: Resume | None) -> None:
        self._task, self._root = task, root
        self.resume = resume

    def data_folder(self) -> Path:
        """See `Report.data_folder`."""
        return data_folder(self._task.trial, self._root)

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> NoReturn:
        """See `_refuse`."""
        self._refuse()

    def step(self, step: Step, seconds: float = math.nan) -> NoReturn:
        """See `_refuse`."""
        self._refuse()

    def checkpoint(self, path: Path) -> NoReturn:
        """See `_refuse`."""
        self._refuse()

    def metric(self, name: str, value: float) -> NoReturn:
        """See `_refuse`."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        """Two that report would make two curves of one trial."""
        raise RuntimeError(
            "only rank 0 reports: wrap the report in trainers.ranks.SharedReport, which asks rank 0's and tells all"
        )
