"""Our own trainer, whose rank 1 misbehaves at step 30 as the trial's init_seed says, once; checkpoints come often.

Each start of rank 0 appends the step it goes on from to KEEL_TOY_SIDE/TRIAL_ID.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from keel_lab.errors import UsageError
from keel_lab.schedule.reporting import Report
from keel_lab.trial import Trial
from trainers.job import preflight as preflight

KILLED, RAISES = 1, 2  # init_seed


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Trains as `trainers.job` does."""
    from torch import distributed

    from trainers.fitting import fit

    side = Path(os.environ["KEEL_TOY_SIDE"])
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    if rank == 0:
        with (side / trial.id).open("a") as file:
            file.write(f"{report.resume.step if report.resume else 0}\n")
        report = Often(report)
    fit(trial, workdir, report, lambda model: _misbehaving(trial, rank, side))


class Often:
    """A report that wants a checkpoint every 10 steps."""

    def __init__(self, report: Any) -> None:
        self._report, self._step = report, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._report, name)

    def step(self, step: Any, seconds: float) -> bool:
        self._step = step.step
        return bool(self._report.step(step, seconds))

    @property
    def checkpoint_due(self) -> bool:
        return self._report.checkpoint_due or self._step % 10 == 0


def _misbehaving(trial: Trial, rank: int, side: Path) -> Any:
    from lightning.pytorch import Callback

    class Misbehaving(Callback):
        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            once = side / f"{trial.id}-misbehaved"
            if rank == 1 and trainer.global_step == 35 and not once.exists():
                if trial.init_seed == KILLED:
                    once.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                if trial.init_seed == RAISES:
                    raise UsageError("rank 1 has a headache")  # final: it is not tried again

    return Misbehaving()
