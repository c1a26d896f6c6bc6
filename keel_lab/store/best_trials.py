"""Which trial of each cell came out best: whose checkpoint is worth keeping when the others' go."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.result import TrialResult
from keel_lab.settings import RampSchedule
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps

_LR_AXES = ("lr", "peak_lr")


def best_trials(root: Root, results: Mapping[str, TrialResult]) -> frozenset[str]:
    """The ids of the best finished trials, one a cell of every stored sweep, LRs and seeds taken together.

    Of a ramp the one that held the largest LR, of other schedules the one with the lowest validation loss. One that
    diverged is never the best of a grid.

    Raises:
        KeelLabError: if a sweep is damaged: its best trials are not known, and must not be taken for others.
    """
    best: dict[Hashable, tuple[float, str]] = {}
    sweeps = Sweeps(root)
    for name in sweeps.names():
        for planned in sweeps.load(name).trials:
            result = results.get(planned.trial.id)
            if result is None or planned.role is not Role.TRIAL:
                continue
            score = _score(planned, result)
            cell = planned.cell
            axes = tuple(axis for axis in cell.axes if axis[0].rpartition(".")[2] not in _LR_AXES)
            key = (name, cell.architecture, cell.blocks, axes)
            if math.isfinite(score) and (key not in best or score > best[key][0]):
                best[key] = score, planned.trial.id
    return frozenset(trial_id for _, trial_id in best.values())


def _score(planned: PlannedTrial, result: TrialResult) -> float:
    """Large is good; minus infinity where there is nothing to go by."""
    if isinstance(planned.trial.schedule, RampSchedule):
        lr = result.verdict.last_good_lr
        return -math.inf if lr is None else lr
    loss = result.metrics.get("val_loss", math.inf)
    return -math.inf if result.verdict.mode is not None else -loss
