"""Table 2 as flat records, for CSV and JSON: everything that the table says and nothing that a repeat would change."""

from __future__ import annotations

from typing import Any

from analysis.intervals import LEVEL
from analysis.metrics import Metric
from analysis.tables.grid import GridCell, GridTable


def records(table: GridTable) -> list[dict[str, Any]]:
    """One a cell and metric."""
    return [{**_metric(table, cell, metric), **_rest(table, cell)} for cell in table.cells for metric in table.metrics]


def _metric(table: GridTable, cell: GridCell, metric: Metric) -> dict[str, Any]:
    value, values = cell.mean(metric), cell.values(metric).values()
    found = table.response(cell.variant, metric)
    return {
        "sweep": cell.sweep,
        "architecture": cell.architecture,
        "axes": dict(cell.axes),
        "blocks": cell.blocks,
        "sublayers": 2 * cell.blocks,
        "lr": cell.lr,
        "metric": metric.name,
        "family": metric.family,
        "members": list(metric.members),
        "lower_is_better": metric.lower_is_better,
        "n_planned": len(cell.readings),
        "n": len(values),
        "clusters": 0 if value is None else value.clusters,
        "mean": None if value is None else value.value,
        "interval_low": None if value is None else value.low,
        "interval_high": None if value is None else value.high,
        "interval_level": None if value is None or value.low is None else LEVEL,
        "low": min(values, default=None),
        "high": max(values, default=None),
        "best": cell.lr == found.best,
        "response": found.trend,
        "response_within_noise": None if found.trend is None else found.noisy,
        "without_metric": cell.finished - len(values),
    }


def _rest(table: GridTable, cell: GridCell) -> dict[str, Any]:
    schedule = table.schedule
    return {
        "diverged": cell.diverged,
        "not_learned": cell.not_learned,
        "degraded": sum(one.degradation is not None and one.degradation.mode == "degradation" for one in cell.readings),
        "failed": sum(one.state == "failed" for one in cell.readings),
        "not_run": sum(one.state == "not_run" for one in cell.readings),
        "skipped": sum(one.state == "skipped" for one in cell.readings),
        "shape": schedule.shape,
        "steps": schedule.steps,
        "warmup_steps": schedule.warmup_steps,
        "final_lr": schedule.final_lr,
        "detector": sorted({one.verdict.detector for one in cell.readings if one.verdict is not None}),
    }
