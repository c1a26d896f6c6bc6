"""Rates for `lr: {from: SWEEP}`: what a stored sweep's table says of a cell, or why it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from analysis import notation
from analysis.readings import Reading, SweepReadings, read
from analysis.tables import grid, max_lr
from keel_lab.plan.chosen_lr import RateError
from keel_lab.plan.planned import Cell
from keel_lab.settings import GridSchedule, RampSchedule
from keel_lab.spec.label import label_text
from keel_lab.spec.lr_choice import LrChoice
from keel_lab.trial import Trial

if TYPE_CHECKING:
    from keel_lab.store.root import Root

SHOWN = 6  # cells named in a message


class StoredRates:
    """Reads each sweep once. A `keel_lab.plan.chosen_lr.MeasuredRates`."""

    def __init__(self, root: Callable[[], Root]) -> None:
        self._root = root
        self._sweeps: dict[str, SweepReadings] = {}

    def rate(self, choice: LrChoice, cell: Cell, trial: Trial) -> tuple[float, str]:
        """See there: `best` as it is, `k*max_lr` rounded to three digits, as tables print Max LR.

        A cell is found by architecture, options, depth and the model's shape. What else its trials differ in from
        this one is remarked upon.
        """
        if choice.sweep not in self._sweeps:
            (self._sweeps[choice.sweep],) = read([choice.sweep], self._root())
        readings = _finished(choice.sweep, _of_cell(self._sweeps[choice.sweep], choice, trial))
        lr, remark = _best(choice.sweep, readings) if choice.factor is None else _share(choice, readings)
        other = _other_training(readings[0].planned.trial, trial)
        return lr, "; ".join(filter(None, (remark, other)))


def _of_cell(sweep: SweepReadings, choice: LrChoice, trial: Trial) -> list[Reading]:
    name = choice.sweep
    wanted, protocol = (GridSchedule, "grid") if choice.factor is None else (RampSchedule, "ramp")
    readings = [one for one in sweep.readings if isinstance(one.planned.trial.schedule, wanted)]
    if not readings:
        other = "pick: 0.5*max_lr goes with a ramp" if protocol == "grid" else "pick: best goes with a grid"
        raise RateError(f"no {protocol} in {name}", f"pick: {choice.pick} needs one; {other}")
    own = [one for one in readings if _question(one.planned.trial) == _question(trial)]
    if not own:
        raise RateError(f"no cell in {name}", _instead(name, readings, trial))
    own = [one for one in own if one.planned.trial.train == trial.train] or own
    kinds = {(one.planned.trial.train, _apart_from_lr(one.planned.trial)) for one in own}
    if len(kinds) > 1:
        section = "schedule" if protocol == "grid" else "ramp"
        raise RateError(
            f"{len(kinds)} such cells in {name}, which differ in train or {section}",
            "choose from a sweep that has one, or list the LRs",
        )
    return own


def _instead(name: str, readings: Sequence[Reading], trial: Trial) -> str:
    alike = [one for one in readings if one.planned.trial.architecture == trial.architecture]
    if any(one.planned.trial.blocks == trial.blocks for one in alike):
        return f"{name} has that architecture and depth with other options or another model: measure this one there"
    cells = list(dict.fromkeys(_named(one.planned.cell) for one in readings))
    listed = ", ".join(cells[:SHOWN]) + (", ..." if len(cells) > SHOWN else "")
    return f"it has {listed}: measure this one there, or leave it out here"


def _named(cell: Cell) -> str:
    return str(Cell(cell.architecture, cell.blocks, tuple(axis for axis in cell.axes if not grid.is_peak_lr(axis[0]))))


def _question(trial: Trial) -> tuple[object, ...]:
    return trial.architecture, sorted(trial.options.items()), trial.blocks, trial.model


def _apart_from_lr(trial: Trial) -> object:
    schedule = trial.schedule
    return schedule.model_copy(update={"lr": 1.0}) if isinstance(schedule, GridSchedule) else schedule


def _finished(name: str, readings: Sequence[Reading]) -> Sequence[Reading]:
    out = sum(one.outstanding for one in readings)
    if out:
        raise RateError(f"{out} of {len(readings)} trials of {name} unfinished", f"keel-lab resume {name} runs them")
    return readings


def _share(choice: LrChoice, readings: Sequence[Reading]) -> tuple[float, str]:
    assert choice.factor is not None
    found = max_lr.estimate(readings)
    if found.kind != "measured" or found.median is None:
        remedies = {
            "censored": f"nothing diverged: raise ramp.peak_lr of {choice.sweep} and run it again, or list the LRs",
            "not_learned": f"lengthen the ramp of {choice.sweep}, which gives it time to learn, or list the LRs",
            "below": f"lengthen the ramp of {choice.sweep}, which gives it time to learn, or list the LRs",
        }
        remedy = remedies.get(found.kind, f"see keel-lab report {choice.sweep}, or list the LRs")
        raise RateError(f"Max LR {notation.max_lr(found)}", remedy)
    said = notation.max_lr_interval(found) if found.planned > 1 else notation.max_lr(found)
    return float(f"{choice.factor * found.median:.3g}"), f"Max LR {said}"


def _best(name: str, readings: Sequence[Reading]) -> tuple[float, str]:
    cells = grid.cells([one for one in readings if one.state != "skipped"])
    found = grid.lr_response(cells, grid.VALIDATION).best
    if found is None:
        raise RateError(
            f"no LR in {name} at which no seed diverged and the validation loss is finite",
            f"add smaller ones to {name}, or list the LRs",
        )
    lrs = sorted(cell.lr for cell in cells)
    edge = {lrs[-1]: "the largest", lrs[0]: "the smallest"}.get(found, "")
    return found, f"{edge} of {len(lrs)} tried: extend the grid of {name}" if edge else f"of {len(lrs)} tried"


def _other_training(measured: Trial, trial: Trial) -> str:
    there, here = measured.train.model_dump(), trial.train.model_dump()
    words = [f"{key} {label_text(str(there[key]))} there, {here[key]} here" for key in here if there[key] != here[key]]
    if measured.data != trial.data:
        words.append("other data there")
    return ", ".join(words)
