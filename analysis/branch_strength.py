"""What each alpha tolerates and what it buys: ramp, grid and probe results of the same model, put side by side.

Alpha multiplies the residual stream, so a branch counts as 1/alpha beside it; where an architecture scales the branch
by c instead (pre_ln_scaled), alpha is 1/c. A large alpha makes any scheme stable for the trivial reason that its
branches hardly count: so Max LR, final loss and measured strength of the branch belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.lr_response import Seeds
from analysis.means import Mean, mean
from analysis.readings import Reading, SweepReadings
from analysis.statistics import Estimate
from analysis.tables.cells import Axes
from analysis.tables.grid import VALIDATION, GridCell, is_peak_lr, lr_response
from analysis.tables.max_lr import estimate
from keel_lab.errors import UsageError
from keel_lab.gradient_flow import Flow
from keel_lab.settings import GridSchedule, RampSchedule
from keel_lab.spec.label import label_text
from keel_lab.trial import Trial

STRENGTHS = ("alpha", "c")  # options that weigh the stream against the branch


@dataclass(frozen=True)
class AlphaRow:
    """One architecture, shape and alpha.

    Attributes:
        trial: any of its trials: the model is the same in all.
        axes: axes of its sweep apart from alpha, c and the LR.
        label: alpha in the sweep's words; for pre_ln_scaled, c.
        alpha: as a number; 1/c for pre_ln_scaled.
        max_lr: of its ramps; None without any.
        cells: of its grids, by rising peak LR.
        flow: inside a trial at the best LR; None if that was never probed.
    """

    trial: Trial
    axes: Axes
    label: str
    alpha: float
    max_lr: Estimate | None
    cells: tuple[GridCell, ...]
    flow: Flow | None = None

    @property
    def units(self) -> float:
        """Alpha in units of L, the number of sub-layers."""
        return self.alpha / self.trial.sublayers

    @cached_property
    def best(self) -> GridCell | None:
        """The cell at the LR of the lowest mean validation loss among those where no seed diverged."""
        lr = lr_response(self.cells, VALIDATION).best if self.cells else None
        return next((cell for cell in self.cells if cell.lr == lr), None)

    @property
    def losses(self) -> dict[Seeds, float]:
        """Final validation losses at the best LR, by seeds."""
        return {} if self.best is None else self.best.values(VALIDATION)

    @property
    def edge(self) -> str:
        """`>=` or `<=` where the best LR is the largest or smallest of several tried, else empty."""
        if self.best is None or len(self.cells) < 2:
            return ""
        lrs = sorted(cell.lr for cell in self.cells)
        return {lrs[-1]: ">= ", lrs[0]: "<= "}.get(self.best.lr, "")


@dataclass(frozen=True)
class AlphaLine:
    """The alphas of one architecture and shape, rising."""

    rows: tuple[AlphaRow, ...]

    @property
    def architecture(self) -> str:
        """Whose alphas they are."""
        return self.rows[0].trial.architecture

    @property
    def axes(self) -> Axes:
        """What tells this line from others."""
        return self.rows[0].axes

    @property
    def best(self) -> AlphaRow | None:
        """The row of the lowest mean loss at its best LR; None without losses."""
        found = [(value.value, at) for at, row in enumerate(self.rows) if (value := loss(row)) is not None]
        return self.rows[min(found)[1]] if found else None

    def alike(self) -> tuple[AlphaRow, ...]:
        """Rows not told apart from the best: the 90% interval of the paired difference holds 0, or there is none."""
        best = self.best
        if best is None:
            return ()
        return tuple(row for row in self.rows if row is best or (row.losses and _tied(difference(row, best))))

    def of_seeds(self) -> dict[Seeds, AlphaRow]:
        """The best row by each seed that every row has."""
        told = [row for row in self.rows if row.losses]
        shared = [seeds for seeds in told[0].losses if all(seeds in row.losses for row in told)] if told else []
        lowest = {seeds: min((row.losses[seeds], row.alpha, at) for at, row in enumerate(told)) for seeds in shared}
        return {seeds: told[at] for seeds, (_, _, at) in lowest.items()}


def loss(row: AlphaRow) -> Mean | None:
    """Mean final validation loss at the row's best LR, nats a token."""
    return None if row.best is None else row.best.mean(VALIDATION)


def difference(row: AlphaRow, other: AlphaRow) -> Mean | None:
    """Mean over pairs of equal seeds of how much higher the row's final loss is; None without pairs."""
    shared = [seeds for seeds in row.losses if seeds in other.losses]
    return mean([row.losses[seeds] - other.losses[seeds] for seeds in shared], [seeds[1] for seeds in shared])


def lines(sweeps: Sequence[SweepReadings], flow_of: Callable[[str], Flow | None] = lambda _: None) -> list[AlphaLine]:
    """The rows of ramp and grid sweeps over alpha, by architecture and shape, in order of first appearance.

    Args:
        sweeps: of which a ramp and a grid of the same model, optimiser and data share a row.
        flow_of: what `keel-lab probe` stored of a trial id.

    Raises:
        UsageError: if a trial has no alpha, or its schedule is neither of the two or not that of the others.
    """
    groups: dict[object, dict[str, Reading]] = {}
    for one in (one for sweep in sweeps for one in sweep.readings):
        groups.setdefault(_question(one.planned.trial), {})[one.planned.trial.id] = one
    found: dict[object, list[AlphaRow]] = {}
    for readings in groups.values():
        row = _row(list(readings.values()), flow_of)
        found.setdefault(_question(row.trial, ignored=STRENGTHS), []).append(row)
    return [AlphaLine(tuple(sorted(rows, key=lambda row: row.alpha))) for rows in found.values()]


def _row(readings: Sequence[Reading], flow_of: Callable[[str], Flow | None]) -> AlphaRow:
    first = readings[0].planned
    name = next((name for name in STRENGTHS if name in first.trial.options), None)
    if name is None:
        raise UsageError(
            f"{first.trial.architecture} in {readings[0].sweep} has no alpha; give sweeps of architectures that have "
            f"an option {' or '.join(STRENGTHS)}"
        )
    ramps = [one for one in readings if isinstance(one.planned.trial.schedule, RampSchedule)]
    value = float(first.trial.options[name])
    row = AlphaRow(
        trial=first.trial,
        axes=tuple(axis for axis in first.cell.axes if axis[0] not in STRENGTHS and not is_peak_lr(axis[0])),
        label=label_text(first.labels.get(name, value)),
        alpha=1 / value if name == "c" else value,
        max_lr=estimate(ramps) if ramps else None,
        cells=_by_lr(readings),
    )
    _check_alike(readings)
    probed = [] if row.best is None else [flow_of(one.planned.trial.id) for one in row.best.readings]
    return replace(row, flow=next((flow for flow in probed if flow is not None), None))


def _by_lr(readings: Sequence[Reading]) -> tuple[GridCell, ...]:
    groups: dict[float, list[Reading]] = {}
    for one in readings:
        if isinstance(one.planned.trial.schedule, GridSchedule):
            groups.setdefault(one.planned.trial.schedule.lr, []).append(one)
    return tuple(_cell(lr, members) for lr, members in sorted(groups.items()))


def _cell(lr: float, readings: Sequence[Reading]) -> GridCell:
    cell = readings[0].planned.cell
    return GridCell(readings[0].sweep, cell.architecture, cell.blocks, (), lr, tuple(readings))


def _check_alike(readings: Sequence[Reading]) -> None:
    """Max LR and losses compare at one ramp and one schedule only."""
    schedules = {one.planned.trial.schedule for one in readings}
    kinds = {one.model_copy(update={"lr": 1.0}) if isinstance(one, GridSchedule) else one for one in schedules}
    names = ", ".join(dict.fromkeys(one.sweep for one in readings))
    for kind in (RampSchedule, GridSchedule):
        if sum(isinstance(one, kind) for one in kinds) > 1:
            raise UsageError(f"{names}: {kind.__name__}s that differ in more than the LR; give one ramp and one grid")
    if any(not isinstance(one, RampSchedule | GridSchedule) for one in kinds):
        raise UsageError(f"{names}: neither a ramp nor a grid; give sweeps of these protocols")


def _question(trial: Trial, ignored: Sequence[str] = ()) -> object:
    options = tuple(sorted(item for item in trial.options.items() if item[0] not in ignored))
    return trial.architecture, options, trial.blocks, trial.model, trial.train, trial.data


def _tied(value: Mean | None) -> bool:
    return value is None or value.low is None or value.high is None or value.low <= 0 <= value.high
