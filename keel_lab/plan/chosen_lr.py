"""The peak LR of each cell where a sweep says `lr: {from: ...}`: chosen once per cell, and recorded as a number."""

from __future__ import annotations

from typing import Protocol

from keel_lab.errors import Problem, UsageError
from keel_lab.plan.planned import Cell
from keel_lab.settings import GridSchedule
from keel_lab.spec.label import label_text
from keel_lab.spec.lr_choice import LrChoice
from keel_lab.trial import Trial

KEY = "grid.lr"


class RateError(UsageError):
    """A cell has no such rate.

    Attributes:
        found: what there is instead.
        remedy: what to do.
    """

    def __init__(self, found: str, remedy: str) -> None:
        self.found, self.remedy = found, remedy
        super().__init__(f"found {found}; {remedy}")


class MeasuredRates(Protocol):
    """Rates as the results in storage have them."""

    def rate(self, choice: LrChoice, cell: Cell, trial: Trial) -> tuple[float, str]:
        """The rate for the cell of a trial, whose own LR does not count, and a remark on it, which may be empty.

        Raises:
            RateError: if the sweep does not give one.
            UsageError: if there is no such sweep.
        """
        ...


class ChosenLrs:
    """Chooses as cells come up.

    Attributes:
        problems: of the cells that have no rate.
        rates: by the cell's name.
        notes: what was chosen, a sentence a cell.
    """

    def __init__(self, choice: LrChoice, measured: MeasuredRates | None) -> None:
        self._choice = choice
        self._measured = measured
        self.problems: list[Problem] = []
        self.rates: dict[str, float] = {}
        self.notes: list[str] = []

    def schedule(self, cell: Cell, trial: Trial) -> GridSchedule:
        """The trial's schedule at its cell's rate; at its own where there is a problem, which is recorded."""
        schedule = trial.schedule
        assert isinstance(schedule, GridSchedule)
        name = str(cell)
        try:
            if name not in self.rates:
                self.rates[name] = self._chosen(cell, trial)
                self._check(schedule, self.rates[name])
        except RateError as error:
            self._refuse(f"{error.found} for {cell}", error.remedy)
        except UsageError as error:
            self._refuse(f"from: {self._choice.sweep}", str(error))
        return schedule.model_copy(update={"lr": self.rates.get(name, schedule.lr)})

    def _chosen(self, cell: Cell, trial: Trial) -> float:
        recorded = self._choice.rates
        if str(cell) in recorded:
            return recorded[str(cell)]
        if recorded:
            raise RateError(
                f"rates of {', '.join(recorded)}", "give one to every cell, or remove rates: they are chosen"
            )
        if self._measured is None:
            raise RateError("no storage to choose from", "give the rates: lr: {from: ..., pick: ..., rates: {...}}")
        lr, remark = self._measured.rate(self._choice, cell, trial)
        self.notes.append(f"lr of {cell}: {label_text(lr)}, {self._choice.words}{remark and f' ({remark})'}")
        return lr

    def _check(self, schedule: GridSchedule, lr: float) -> None:
        if schedule.shape == "cosine" and schedule.final_lr > lr:
            raise RateError(
                f"the chosen {label_text(lr)}",
                f"the cosine falls to final_lr ({label_text(schedule.final_lr)}), which must not be above it",
            )

    def _refuse(self, found: str, remedy: str) -> None:
        problem = Problem(self._choice.place, KEY, found, remedy)
        if problem not in self.problems:
            self.problems.append(problem)
