"""A log's table as one run of steps: split where the step goes back, its last run taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from keel_lab.curve import Step
from keel_lab.errors import UsageError
from keel_lab.judge.columns import FLAGS, Columns, find, flags, needed, numbers, whole
from keel_lab.judge.table import Table

_OVERFLOWN = 1e300  # nats; beyond any single-precision loss, so an overflow that was written as a number


@dataclass(frozen=True)
class Log:
    """One run.

    Attributes:
        source: the file or run it is from.
        steps: with rising step numbers.
        unigram_entropy: mean of the unigram losses, an estimate of H1 in nats; None without such a column.
        facts: JSON-ready: columns, rows, and what was left out.
    """

    source: str
    steps: tuple[Step, ...]
    unigram_entropy: float | None
    facts: dict[str, Any]

    @property
    def peak_lr(self) -> float | None:
        """The largest LR; None if none is known."""
        return max((step.lr for step in self.steps if math.isfinite(step.lr)), default=None)

    def at_lr(self, lr: float) -> Log:
        """The same run with one LR throughout, as given by the user."""
        facts = {**self.facts, "lr_given": lr}
        return replace(self, steps=tuple(step._replace(lr=lr) for step in self.steps), facts=facts)


def read_log(table: Table, columns: Columns) -> Log:
    """The last run of a table.

    Without a step column rows are numbered from 0. A row without a loss is no sample and is counted; what it says of a
    step counts for that step's loss in the rows beside it, as Lightning's CSVLogger writes them (LR and loss in two
    rows). A step that is logged again replaces the one before, unless that would hide a loss that is not finite.

    Raises:
        UsageError: naming the column or cell that is wrong.
    """
    used = {"loss": needed(table, "loss", columns.loss)}
    for role in ("step", "lr", "grad_norm", "unigram_loss"):
        if name := find(table, role, getattr(columns, role)):
            used[role] = name
    cells = {role: numbers(table, name) for role, name in used.items()}
    _refuse_negative(table, used, cells)
    if "step" in cells:
        _spread_within_steps(cells)
    marks = {name: found for name in FLAGS if (found := flags(table, name)) is not None}
    runs, left = _runs(table, used, cells, marks)
    if not runs:
        raise UsageError(
            f"{table.source}: there is no row with a {used['loss']!r}; there are {len(cells['loss'])} rows"
        )
    steps = tuple(runs[-1])
    known = [step.unigram_loss for step in steps if math.isfinite(step.unigram_loss)]
    counts = {"rows": len(cells["loss"]), "runs": len(runs), "judged_run": len(runs), **left}
    numbered = {} if "step" in used else {"step_numbers": "rows from 0: there is no step column"}
    facts: dict[str, Any] = {"columns": used, **counts, **numbered}
    return Log(table.source, steps, fmean(known) if known else None, facts)


def _refuse_negative(table: Table, used: dict[str, str], cells: dict[str, list[float | None]]) -> None:
    for row, lr in enumerate(cells.get("lr", ())):
        if lr is not None and lr < 0:
            raise UsageError(
                f"{table.source}: {table.place(row)}, column {used['lr']!r}: found {lr}, but no LR is below 0"
            )


def _spread_within_steps(cells: dict[str, list[float | None]]) -> None:
    """Fills what a row with a loss lacks from neighbouring rows of the same step."""
    steps = cells["step"]
    first = 0
    for row in range(1, len(steps) + 1):
        if row < len(steps) and steps[row] == steps[first] and steps[row] is not None:
            continue
        for role in set(cells) - {"step", "loss"} if row - first > 1 else ():
            column = cells[role]
            known = [cell for cell in column[first:row] if cell is not None]
            column[first:row] = [known[-1] if cell is None and known else cell for cell in column[first:row]]
        first = row


def _runs(
    table: Table, used: dict[str, str], cells: dict[str, list[float | None]], marks: dict[str, list[bool]]
) -> tuple[list[list[Step]], dict[str, int]]:
    runs: list[list[Step]] = []
    without = again = 0
    last_without: int | None = None
    gap = longest = 0
    for row, loss in enumerate(cells["loss"]):
        number = cells["step"][row] if "step" in cells else float(row)
        if loss is None:
            without, last_without, gap = without + 1, row, gap + 1
            continue
        longest, gap = max(longest, gap), 0
        if number is None:
            raise UsageError(f"{table.source}: {table.place(row)}: there is a loss but no {used['step']!r}")
        others = {role: math.nan if (cell := column[row]) is None else cell for role, column in cells.items()}
        step = Step(
            step=whole(number, f"{table.source}: {table.place(row)}", used.get("step", "")),
            loss=math.copysign(math.inf, loss) if abs(loss) > _OVERFLOWN else loss,
            lr=others.get("lr", math.nan),
            unigram_loss=others.get("unigram_loss", math.nan),
            grad_norm=others.get("grad_norm", math.nan),
            **{name: column[row] for name, column in marks.items()},
        )
        if not runs or step.step < runs[-1][-1].step:
            runs.append([])
        elif step.step == runs[-1][-1].step:
            again += 1
            before = runs[-1].pop()
            step = before if not math.isfinite(before.loss) else step
        runs[-1].append(step)
    facts: dict[str, int] = {"repeated_steps": again} if again else {}
    if last_without is not None:
        facts |= {"rows_without_loss": without, "last_row_without_loss": last_without + 1}
    if gap > longest:  # no rhythm of rows for other metrics: losses stop before the log does
        facts["rows_without_loss_at_the_end"] = gap
    return runs, facts
