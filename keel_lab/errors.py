"""The errors a user can meet, each with the exit code it ends the command with (DESIGN: exit codes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class KeelLabError(Exception):
    """An error whose message is written for the user: the place, the reason and the remedy, without a traceback."""

    exit_code = 1


class UsageError(KeelLabError):
    """The command line, the sweep file or the state of the store does not allow what was asked; nothing was changed."""

    exit_code = 2


class IncompleteError(KeelLabError):
    """Work is left that `keel-lab resume` can finish."""

    exit_code = 3


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a sweep file.

    Attributes:
        place: `file:line`, or `command line` for an override.
        key: dotted key, e.g. `model.heads`.
        found: what stands there, as the user wrote it.
        allowed: what may stand there; one clause.
        nearest: the nearest allowed word, if the found one looks like a slip.
    """

    place: str
    key: str
    found: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        hint = f" (did you mean {self.nearest}?)" if self.nearest else ""
        return f"{self.place}: {self.key}: found {self.found}; {self.allowed}{hint}"


class SpecError(UsageError):
    """Everything wrong with a sweep file, reported at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NewerSchemaError(UsageError, ValueError):
    """A stored file was written by a newer keel_lab than this one; it is refused rather than misread."""

    def __init__(self, what: str, found: int, known: int) -> None:
        self.found = found
        super().__init__(
            f"{what} has schema {found}, this version of keel_lab reads up to {known}; upgrade keel-lab to read it"
        )
