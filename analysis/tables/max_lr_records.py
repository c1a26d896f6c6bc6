"""Table 1 as flat records, for CSV and JSON: everything that the table says and nothing that a repeat would change."""

from __future__ import annotations

from typing import Any

from analysis.intervals import LEVEL, Interval
from analysis.ramp import slope, slope_unit
from analysis.readings import Counting, Reading
from analysis.statistics import Estimate
from analysis.tables.max_lr import MaxLRCell, MaxLRTable
from keel_lab.detect.verdict import Verdict
from keel_lab.settings import RampSchedule


def records(table: MaxLRTable) -> list[dict[str, Any]]:
    """One a cell."""
    return [_record(cell, table.ramp) for cell in table.cells]


def _record(cell: MaxLRCell, ramp: RampSchedule) -> dict[str, Any]:
    where, value = cell.seeded.cell, cell.estimate
    return {
        "sweep": cell.seeded.sweep,
        "architecture": where.architecture,
        "axes": dict(where.axes),
        "blocks": where.blocks,
        "sublayers": 2 * where.blocks,
        "n_planned": value.planned,
        "n": value.n,
        "clusters": value.clusters,
        "max_lr_median": value.median,
        "low": value.low,
        "high": value.high,
        "low_is_bound": value.below > 0,
        "high_is_bound": value.censored > 0,
        "range_coverage": value.coverage,
        **_interval("interval", value.interval),
        "kind": value.kind,
        "measured": value.measured,
        "censored": value.censored,
        "below": value.below,
        "not_learned": value.not_learned,
        "undecided": value.undecided,
        "failed": value.failed,
        "not_run": value.not_run,
        "modes": dict(value.modes),
        **_counting("with_degradation", cell.others.get(Counting.DEGRADATION)),
        **_counting("irreversible", cell.others.get(Counting.IRREVERSIBLE)),
        "ratio_to_pre_ln": None if cell.ratio is None else cell.ratio.value,
        "ratio_kind": None if cell.ratio is None else cell.ratio.kind,
        "ratio_pairs": None if cell.ratio is None else cell.ratio.pairs,
        **_interval("ratio", None if cell.ratio is None else cell.ratio.interval),
        "paper_ratio": cell.paper_ratio,
        "shape": ramp.shape,
        "from_lr": ramp.from_lr,
        "peak_lr": ramp.peak_lr,
        "steps": ramp.steps,
        "slope": slope(ramp),
        "slope_unit": slope_unit(ramp),
        "detector": sorted({one.verdict.detector for one in cell.seeded.readings if one.verdict is not None}),
    }


def _counting(name: str, value: Estimate | None) -> dict[str, Any]:
    """Max LR under another rule of what counts as divergence; all None if its trials were not run for it."""
    return {
        f"{name}_max_lr_median": None if value is None else value.median,
        f"{name}_kind": None if value is None else value.kind,
        f"{name}_n": None if value is None else value.n,
        f"{name}_modes": {} if value is None else dict(value.modes),
        **_interval(f"{name}_interval", None if value is None else value.interval),
    }


def _interval(name: str, value: Interval | None) -> dict[str, Any]:
    """An open end is a bound: the true end lies beyond it."""
    return {
        f"{name}_low": None if value is None else value.low,
        f"{name}_high": None if value is None else value.high,
        f"{name}_low_is_bound": None if value is None else value.low_open,
        f"{name}_high_is_bound": None if value is None else value.high_open,
        f"{name}_level": None if value is None else LEVEL,
    }


def seed_records(cell: MaxLRCell) -> list[dict[str, Any]]:
    """The reading of each seed of a cell."""
    return [_seed_record(one) for one in cell.seeded.readings]


def _seed_record(one: Reading) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "trial": one.planned.trial.id,
        "init_seed": one.planned.trial.init_seed,
        "data_seed": one.planned.trial.data_seed,
        "state": one.state,
        "failure": None if one.failure is None else str(one.failure.kind),
        "kind": None if one.max_lr is None else str(one.max_lr.kind),
        "max_lr": None if one.max_lr is None else one.max_lr.lr,
        "verdict": None if verdict is None else str(verdict.status),
        "mode": None if verdict is None or verdict.mode is None else str(verdict.mode),
        **{
            str(rule): None
            if (found := one.counting(rule)) is None
            else {"kind": str(found.kind), "max_lr": found.lr, "mode": _mode(one.judged(rule))}
            for rule in (Counting.DEGRADATION, Counting.IRREVERSIBLE)
        },
        "onset_step": None if verdict is None else verdict.onset_step,
        "last_good_step": None if verdict is None else verdict.last_good_step,
    }


def _mode(verdict: Verdict | None) -> str | None:
    return None if verdict is None or verdict.mode is None else str(verdict.mode)
