"""Grid sweeps by cell: the seeds of an architecture, depth, axes and peak LR, with the metrics they ended with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis import lr_sensitivity
from analysis.lr_response import Point, Response, Seeds, response
from analysis.means import Mean, mean, mean_in_logs
from analysis.metrics import LOSS, Metric, rows, with_perplexity
from analysis.readings import Reading, SweepReadings
from analysis.tables.cells import Axes
from keel_lab.detect.verdict import Mode, Status
from keel_lab.settings import GridSchedule

Variant = tuple[str, str, int, Axes]  # sweep, architecture, blocks and other axes: what an LR is chosen for


@dataclass(frozen=True)
class GridCell:
    """The seeds of one architecture, depth and peak LR; `axes` are the other axes."""

    sweep: str
    architecture: str
    blocks: int
    axes: Axes
    lr: float
    readings: tuple[Reading, ...]

    @property
    def variant(self) -> Variant:
        """What it shares with the cells at other LRs."""
        return self.sweep, self.architecture, self.blocks, self.axes

    @cached_property
    def lost(self) -> tuple[Seeds, ...]:
        """Seeds that left a level they had reached, or became non-finite; one that never learned left none."""
        return tuple(_seeds(one) for one in self.readings if _lost(one))

    @property
    def diverged(self) -> int:
        """How many `lost`."""
        return len(self.lost)

    @property
    def not_learned(self) -> int:
        """Seeds that never got clearly below the unigram level: stagnation, or too few steps."""
        return sum(one.verdict is not None and one.verdict.mode is Mode.STAGNATION for one in self.readings)

    @property
    def finished(self) -> int:
        """Seeds that have a result and did not diverge."""
        return sum(one.result is not None for one in self.readings) - self.diverged

    @cached_property
    def reported(self) -> dict[Seeds, dict[str, float]]:
        """The metrics of those seeds, by (init_seed, data_seed)."""
        return {
            _seeds(one): with_perplexity(one.result.metrics)
            for one in self.readings
            if one.result is not None and one.verdict is not None and not _lost(one)
        }

    def values(self, metric: Metric) -> dict[Seeds, float]:
        """A metric by seeds, where it is finite."""
        found = {seeds: metric.of(metrics) for seeds, metrics in self.reported.items()}
        return {
            seeds: value for seeds, value in found.items() if value is not None and (value > 0 or not metric.in_logs)
        }

    def mean(self, metric: Metric) -> Mean | None:
        """Over the seeds that have it."""
        values = self.values(metric)
        taken = mean_in_logs if metric.in_logs else mean
        return taken(list(values.values()), [data_seed for _, data_seed in values])


def _seeds(reading: Reading) -> Seeds:
    return reading.planned.trial.init_seed, reading.planned.trial.data_seed


def _lost(reading: Reading) -> bool:
    verdict = reading.verdict
    return verdict is not None and verdict.status is Status.DIVERGED and verdict.mode is not Mode.STAGNATION


@dataclass(frozen=True)
class GridTable:
    """The cells of one or several sweeps that differ in nothing of their schedule but the peak LR."""

    schedule: GridSchedule
    cells: tuple[GridCell, ...]
    sweeps: tuple[SweepReadings, ...]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric that a trial of it ended with, and the means of families."""
        return rows(name for cell in self.cells for metrics in cell.reported.values() for name in metrics)

    @cached_property
    def variants(self) -> dict[Variant, tuple[GridCell, ...]]:
        """The cells of each variant by rising LR."""
        groups: dict[Variant, list[GridCell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.variant, []).append(cell)
        return {variant: tuple(sorted(cells, key=lambda cell: cell.lr)) for variant, cells in groups.items()}

    @cached_property
    def usual(self) -> int:
        """How many seeds most cells' validation losses stand on."""
        counts = Counter(value.n for cell in self.cells if (value := cell.mean(VALIDATION)) is not None)
        return max(counts, key=lambda n: (counts[n], n), default=0)

    def response(self, variant: Variant, metric: Metric) -> Response:
        """How a metric of a variant responds to the LR."""
        return lr_response(self.variants[variant], metric)


def lr_response(cells: Sequence[GridCell], metric: Metric) -> Response:
    """How a metric responds to the LR over the cells of one variant; one whose seeds were all skipped is none."""
    points = [
        Point(cell.lr, _compared(cell, metric), cell.diverged > 0, not any(one.outstanding for one in cell.readings))
        for cell in cells
        if any(one.state != "skipped" for one in cell.readings)
    ]
    return response(points, lower_is_better=metric.lower_is_better)


def sensitivity(cells: Sequence[GridCell]) -> Mean | None:
    """The LR sensitivity of a variant, see `analysis.lr_sensitivity`; None without data, whose chance nobody knows."""
    data = cells[0].readings[0].planned.trial.data
    if data is None:
        return None
    outcomes = [
        lr_sensitivity.Outcome(cell.lr, {**cell.values(VALIDATION), **dict.fromkeys(cell.lost, math.inf)})
        for cell in cells
    ]
    return lr_sensitivity.sensitivity(outcomes, math.log(data.vocab))


def _compared(cell: GridCell, metric: Metric) -> dict[Seeds, float]:
    values = cell.values(metric)
    return {seeds: math.log(value) for seeds, value in values.items()} if metric.in_logs else values


VALIDATION = Metric(LOSS, (LOSS,))


def tables(sweeps: Sequence[SweepReadings]) -> list[GridTable]:
    """One table a schedule (apart from its peak LR), in order of first appearance."""
    groups: dict[GridSchedule, list[Reading]] = {}
    for one in (one for sweep in sweeps for one in sweep.readings):
        schedule = one.planned.trial.schedule
        if isinstance(schedule, GridSchedule):
            groups.setdefault(schedule.model_copy(update={"lr": 1.0}), []).append(one)
    found = []
    for schedule, readings in groups.items():
        names = {one.sweep for one in readings}
        found.append(GridTable(schedule, cells(readings), tuple(one for one in sweeps if one.stored.name in names)))
    return found


def cells(readings: Sequence[Reading]) -> tuple[GridCell, ...]:
    """Groups readings of grid sweeps by cell and peak LR, in order of first appearance."""
    groups: dict[tuple[str, str, int, Axes, float], list[Reading]] = {}
    for one in readings:
        cell, schedule = one.planned.cell, one.planned.trial.schedule
        assert isinstance(schedule, GridSchedule)
        others = tuple(axis for axis in cell.axes if not is_peak_lr(axis[0]))
        groups.setdefault((one.sweep, cell.architecture, cell.blocks, others, schedule.lr), []).append(one)
    return tuple(GridCell(*key, tuple(members)) for key, members in groups.items())


def is_peak_lr(axis: str) -> bool:
    """Whether an axis of a cell is its peak LR."""
    return axis.rpartition(".")[2] in ("lr", "peak_lr")
