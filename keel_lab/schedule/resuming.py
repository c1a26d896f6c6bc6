"""From which checkpoint an attempt goes on: the trial's own last one or, for a fork, one of its trunk's."""

from __future__ import annotations

from pathlib import Path

from keel_lab.settings import ForkSchedule
from keel_lab.store.checkpoints import StoredCheckpoint
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


def stored_checkpoint(trial: Trial, trials: Trials, into: Path) -> StoredCheckpoint | None:
    """The checkpoint, fetched into the folder `into` if storage is remote; None: the trial starts at its beginning."""
    stored = trials.checkpoint(trial.id, into)
    if stored is None and trial.trunk is not None and isinstance(trial.schedule, ForkSchedule):
        stored = trials.checkpoint_before(trial.trunk.id, trial.schedule.at, into)
    return stored
