"""Which column of a log is what, by name or as given, and its cells as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keel_lab.errors import UsageError
from keel_lab.judge.table import Table
from keel_lab.spec.kind import nearest

ALIASES = {
    "step": ("step", "global_step", "train/global_step", "trainer/global_step", "_step", "iteration", "iter", "update"),
    "loss": ("loss", "train_loss", "train/loss", "training_loss", "loss/train", "lm_loss", "train/lm_loss"),
    "lr": ("lr", "learning_rate", "train/lr", "train/learning_rate", "learning_rate/train"),
    "grad_norm": (
        "grad_norm",
        "gradient_norm",
        "train/grad_norm",
        "diag/grad_norm",
        "train/gradient_norm",
        "total_grad_norm",
    ),
    "unigram_loss": ("unigram_loss", "train/unigram_loss"),
}
FLAGS = ("skipped", "weights_finite")  # of keel_lab's own curves; used where every cell is a boolean
_MISSING = ("", "na", "n/a", "null", "none")
_LR_MONITOR = re.compile(r"lr-[A-Za-z]\w*(-\d+)?(/pg\d+)?")  # Lightning's LearningRateMonitor: lr-AdamW
_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """Names of the columns to use, as given on the command line; None to find them."""

    step: str | None = None
    loss: str | None = None
    lr: str | None = None
    grad_norm: str | None = None
    unigram_loss: str | None = None


def find(table: Table, role: str, given: str | None) -> str | None:
    """The column that plays a role; None if there is none and none was named.

    Raises:
        UsageError: if the named one is not there, stands twice, or several could be meant.
    """
    if given is not None:
        return _only(
            table, role, [name for name in dict.fromkeys(table.names) if name == given] or _missing(table, given)
        )
    plain = {name: _plain(name) for name in dict.fromkeys(table.names)}
    for alias in ALIASES[role]:
        if found := [name for name, words in plain.items() if words == _plain(alias)]:
            return _only(table, role, found)
    monitored = [name for name in plain if role == "lr" and _LR_MONITOR.fullmatch(name)]
    return _only(table, role, monitored) if monitored else None


def _plain(name: str) -> str:
    return re.sub(r"[ \-.]+", "_", name.strip().lower())


def _only(table: Table, role: str, found: Sequence[str]) -> str:
    if len(found) > 1:
        raise UsageError(
            f"{table.source}: columns {' and '.join(found)} could both be the {role}; choose {_option(role)}"
        )
    if (count := list(table.names).count(found[0])) > 1:
        raise UsageError(f"{table.source}: column {found[0]!r} stands there {count} times; keep one of them")
    return found[0]


def _missing(table: Table, given: str) -> Sequence[str]:
    near = nearest(given, table.names)
    hint = f" (did you mean {near}?)" if near else ""
    raise UsageError(f"{table.source}: there is no column {given!r}{hint}; there are {listed(table)}")


def _option(role: str) -> str:
    return f"with --{role.replace('_', '-')} COLUMN"


def needed(table: Table, role: str, given: str | None) -> str:
    """As `find`, but an error if there is none."""
    found = find(table, role, given)
    if found is None:
        raise UsageError(
            f"{table.source}: there is no {role} column (looked for {', '.join(ALIASES[role])}); name it "
            f"{_option(role)}; there are {listed(table)}"
        )
    return found


def listed(table: Table) -> str:
    """The names of the table's columns, for messages."""
    names = [name or '""' for name in dict.fromkeys(table.names)]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def numbers(table: Table, name: str) -> list[float | None]:
    """The cells of a column; None where a cell is empty. NaN and Inf in any spelling are numbers.

    Raises:
        UsageError: naming the first cell that is none.
    """
    found: list[float | None] = []
    for row, cell in enumerate(table.load(name)):
        try:
            found.append(_number(cell))
        except (TypeError, ValueError, OverflowError):
            shown = repr(cell) if len(repr(cell)) <= 60 else f"{repr(cell)[:57]}..."
            raise UsageError(
                f"{table.source}: {table.place(row)}, column {name!r}: found {shown}, which is no number"
            ) from None
    return found


def _number(cell: Any) -> float | None:
    if cell is None:
        return None
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in _MISSING:
            return None
        if "_" in text:
            raise ValueError(text)
        return float(text)
    if isinstance(cell, bool):
        raise TypeError("a boolean")
    return float(cell)


def flags(table: Table, name: str) -> list[bool] | None:
    """The cells of a boolean column; None if it is not there or is none."""
    if list(table.names).count(name) != 1:
        return None
    words = {"true": True, "false": False}
    found = [words.get(str(cell).strip().lower()) for cell in table.load(name)]
    return None if None in found else [bool(cell) for cell in found]


def whole(value: float, place: str, name: str) -> int:
    """A step number.

    Raises:
        UsageError: if it is not whole.
    """
    if not math.isfinite(value) or value != int(value):
        raise UsageError(f"{place}, column {name!r}: found {value}, but a step is a whole number")
    return int(value)
