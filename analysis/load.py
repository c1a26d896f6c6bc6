"""Stored sweeps as one tidy table: a row a planned trial, whatever became of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.ramp import slope, slope_unit
from analysis.readings import Counting, Reading, open_root, read
from keel_lab.collector import held_back
from keel_lab.settings import RampSchedule

if TYPE_CHECKING:
    import pandas as pd

    from keel_lab.store.root import Root


class Column(NamedTuple):
    """A column's pandas dtype, its unit (empty for words and flags) and what it says."""

    dtype: str
    unit: str
    meaning: str


COLUMNS: dict[str, Column] = {
    "sweep": Column("str", "", "name of the sweep"),
    "trial": Column("str", "", "trial id"),
    "name": Column("str", "", "readable name, distinct within the sweep"),
    "cell": Column("str", "", "the cell that the trial is a repeat of"),
    "state": Column(
        "str", "", "completed, diverged, failed (every attempt so far), not_run or skipped (a lower LR diverged)"
    ),
    "failure": Column("str", "", "kind of the last failure of a failed trial"),
    "architecture": Column("str", "", "as in the sweep file"),
    "blocks": Column("int64", "blocks", "depth"),
    "sublayers": Column("int64", "sub-layers", "depth, L = 2 x blocks"),
    "width": Column("int64", "features", "width of the residual stream"),
    "parameters": Column("int64", "parameters", "trainable parameters; 0 where the trainer does not say"),
    "init_seed": Column("int64", "", "seed of the initial weights"),
    "data_seed": Column("int64", "", "seed of the data order"),
    "protocol": Column("str", "", "ramp or grid"),
    "shape": Column("str", "", "shape of the ramp or of the decay"),
    "from_lr": Column("float64", "LR", "where a ramp starts"),
    "peak_lr": Column("float64", "LR", "largest LR of the schedule"),
    "schedule_steps": Column("int64", "steps", "length of the schedule"),
    "slope": Column("float64", "slope_unit", "how fast a ramp rises"),
    "slope_unit": Column("str", "", "LR/step (linear) or decades/step (log)"),
    "verdict": Column("str", "", "healthy, transient, unconfirmed, undecided or diverged"),
    "mode": Column("str", "", "how it diverged"),
    "detector": Column("str", "", "detector and version that gave the verdict"),
    "learned": Column("boolean", "", "whether the loss left the unigram level"),
    "onset_step": Column("Int64", "step", "first bad step"),
    "last_good_step": Column("Int64", "step", "last step before the onset, or of the run"),
    "last_good_lr": Column("float64", "LR", "LR of the update at last_good_step"),
    "max_lr": Column("float64", "LR", "Max LR; with max_lr_kind censored the Max LR is above this"),
    "max_lr_kind": Column(
        "str", "", "measured, censored, below (held runs failed), not_learned or undecided; ramps only"
    ),
    "max_lr_with_degradation": Column("float64", "LR", "Max LR, modes 1+2+3; where siblings tell"),
    "max_lr_with_degradation_kind": Column("str", "", "as max_lr_kind"),
    "max_lr_irreversible": Column("float64", "LR", "Max LR, irreversible divergence only; where forks tell"),
    "max_lr_irreversible_kind": Column("str", "", "as max_lr_kind"),
    "val_loss": Column("float64", "nats/token", "final validation loss, where the protocol measures it"),
    "steps": Column("Int64", "steps", "steps run"),
    "tokens": Column("Int64", "tokens", "tokens seen, by batch size and context"),
    "seconds_per_step": Column("float64", "s", "median wall time of a step"),
    "seconds": Column("float64", "s", "wall time from start to finish of the last attempt"),
}
"""Every fixed column of `load`. Beside them stand, where a sweep has them: `label.NAME`, an axis or option in the sweep
file's words; `option.NAME`, an architecture's option as the number it came to; `metric.NAME`, other metrics."""


def load(names: str | Sequence[str], storage: Root | Path | str | None = None) -> pd.DataFrame:
    """Loads sweeps from storage, a row a planned trial; trials without a result keep their row, with NaN and a state.

    Args:
        names: a sweep's name, or several.
        storage: root of the store; None for KEEL_LAB_STORAGE, else `./keel-lab-store`.

    Returns:
        The columns of `COLUMNS` (with units there), then `label.*`, `option.*` and `metric.*`. A trial that stands in
        two of the sweeps has a row in each.

    Raises:
        UsageError: if there is no such sweep or store.
    """
    import pandas as pd

    with held_back():
        sweeps = read([names] if isinstance(names, str) else names, open_root(storage))
        rows = [_row(one) for sweep in sweeps for one in sweep.readings]
        extra = sorted({name for row in rows for name in row} - COLUMNS.keys(), key=_extra_order)
        frame = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    return frame.astype({name: column.dtype for name, column in COLUMNS.items()})


def _extra_order(name: str) -> tuple[int, str]:
    return ("label", "option", "metric").index(name.partition(".")[0]), name


def _row(one: Reading) -> dict[str, Any]:
    trial = one.planned.trial
    row: dict[str, Any] = {
        "sweep": one.sweep,
        "trial": trial.id,
        "name": one.planned.name,
        "cell": str(one.planned.cell),
        "state": one.state,
        "failure": None if one.failure is None else str(one.failure.kind),
        "architecture": trial.architecture,
        "blocks": trial.blocks,
        "sublayers": trial.sublayers,
        "width": trial.model.width,
        "parameters": one.planned.parameters,
        "init_seed": trial.init_seed,
        "data_seed": trial.data_seed,
        **_schedule(one),
        **_outcome(one),
    }
    row |= {f"label.{name}": value for name, value in one.planned.labels.items()}
    return row | {f"option.{name}": value for name, value in trial.options.items()}


def _schedule(one: Reading) -> dict[str, Any]:
    schedule = one.planned.trial.schedule
    row = {"protocol": schedule.kind, "shape": schedule.shape, "schedule_steps": schedule.steps}
    if isinstance(schedule, RampSchedule):
        return row | {
            "from_lr": schedule.from_lr,
            "peak_lr": schedule.peak_lr,
            "slope": slope(schedule),
            "slope_unit": slope_unit(schedule),
        }
    return row | {"from_lr": math.nan, "peak_lr": schedule.lr, "slope": math.nan}


def _counted(one: Reading, rule: Counting) -> dict[str, Any]:
    found = one.counting(rule)
    return {f"max_lr_{rule}": found and found.lr, f"max_lr_{rule}_kind": found and str(found.kind)}


def _outcome(one: Reading) -> dict[str, Any]:
    if one.result is None or one.verdict is None:
        return {}
    execution, metrics = one.result.execution, dict(one.result.metrics)
    row = {
        "verdict": str(one.verdict.status),
        "mode": None if one.verdict.mode is None else str(one.verdict.mode),
        "detector": one.verdict.detector,
        "learned": one.verdict.learned,
        "onset_step": one.verdict.onset_step,
        "last_good_step": one.verdict.last_good_step,
        "last_good_lr": one.verdict.last_good_lr,
        "max_lr": None if one.max_lr is None else one.max_lr.lr,
        "max_lr_kind": None if one.max_lr is None else str(one.max_lr.kind),
        **_counted(one, Counting.DEGRADATION),
        **_counted(one, Counting.IRREVERSIBLE),
        "val_loss": metrics.pop("val_loss", None),
        "steps": one.result.steps,
        "tokens": one.result.steps * one.planned.trial.tokens_per_step,
        "seconds_per_step": execution.get("seconds_per_step"),
    }
    if "started_at" in execution and "finished_at" in execution:
        row["seconds"] = execution["finished_at"] - execution["started_at"]
    return row | {f"metric.{name}": value for name, value in metrics.items()}
