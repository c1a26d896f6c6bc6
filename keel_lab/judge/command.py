"""What `keel-lab judge` does between its arguments and its output."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keel_lab.detect.thresholds import Thresholds
from keel_lab.errors import KeelLabError, UsageError
from keel_lab.judge import mlflow_table
from keel_lab.judge.columns import ALIASES, Columns
from keel_lab.judge.judgement import Judgement, Levels, judge_log, text
from keel_lab.judge.log import Log, read_log
from keel_lab.judge.table import Table, read_table
from keel_lab.spec.divergence import overridden

_OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=[^/]*")


@dataclass(frozen=True)
class Request:
    """What was asked on the command line.

    Attributes:
        arguments: files, run ids and `divergence.KEY=VALUE`, mixed.
        siblings: files or run ids.
        columns: named columns; `columns.lr` may be a number, the LR of every file.
        levels: of the data.
        tracking: gives the tracking URI; called for run ids only.
    """

    arguments: Sequence[str]
    siblings: Sequence[str]
    columns: Columns
    levels: Levels
    tracking: Callable[[], str | None]


def spread(arguments: Sequence[str], option: str = "--siblings") -> list[str]:
    """The command line with `option` before each of the words that follow it, up to the next option or override."""
    found: list[str] = []
    inside = False
    for word in arguments:
        if word == option:
            inside = True
        elif inside and not word.startswith("-") and not _is_override(word):
            found += [option, word]
        else:
            inside = False
            found.append(word)
    return found if option not in arguments or option in found else [*found, option]


def _is_override(word: str) -> bool:
    return bool(_OVERRIDE.fullmatch(word)) and not Path(word).exists()


def judge_files(request: Request, *, as_json: bool) -> str:
    """The verdicts of the files, as text or JSON, without a trailing newline.

    Raises:
        UsageError: with one sentence for each thing that is wrong.
    """
    overrides = [word for word in request.arguments if _is_override(word)]
    files = [word for word in request.arguments if word not in overrides]
    if not files:
        raise UsageError("no file to judge; give one: keel-lab judge FILE...")
    thresholds = overridden(Thresholds(), overrides)
    _check_levels(request.levels)
    problems: list[str] = []
    reader = _Reader(request, problems)
    logs = [log for file in files if (log := reader.read(file, request.columns.lr)) is not None]
    siblings = [log for file in dict.fromkeys(request.siblings) if (log := reader.read(file, None)) is not None]
    if request.siblings and not problems:
        problems += [why for log in [*logs, *siblings] if (why := _without_lr(log))]
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    judgements: list[Judgement] = []
    for file, log in zip(files, logs, strict=True):
        others = [other for other in siblings if other.source != log.source]
        judgements.append(judge_log(file, log, others, request.levels, thresholds))
    if as_json:
        return json.dumps([one.to_json() for one in judgements], indent=2, allow_nan=False)
    return text(judgements)


def _check_levels(levels: Levels) -> None:
    for name, value in (("--chance", levels.chance), ("--unigram", levels.unigram)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name}: found {value}; it is a loss in nats above 0")
    if levels.chance is not None and levels.unigram is not None and levels.unigram > levels.chance:
        raise UsageError(
            f"--unigram {levels.unigram} is above --chance {levels.chance}, but knowing how often tokens occur never "
            "costs nats; exchange the two or correct one"
        )


def _without_lr(log: Log) -> str | None:
    if log.peak_lr is not None:
        return None
    return (
        f"{log.source}: it has no LR (looked for {', '.join(ALIASES['lr'])}), but siblings count at lower LR only; "
        f"name its column with --lr COLUMN, or give its peak: {log.source}@1e-3"
    )


class _Reader:
    """Reads files and runs, collecting what is wrong with them."""

    def __init__(self, request: Request, problems: list[str]) -> None:
        self._request, self._problems = request, problems

    def read(self, word: str, lr: str | None) -> Log | None:
        name, given = _split_lr(word)
        try:
            table = self._table(name)
            columns = replace(self._request.columns, lr=self._lr_column(table))
            log = read_log(table, columns)
        except KeelLabError as error:
            self._problems.append(str(error))
            return None
        if given is None and lr is not None and columns.lr is None:
            given = _number(lr)
        return log if given is None else log.at_lr(given)

    def _lr_column(self, table: Table) -> str | None:
        """The LR column that was named; None if none was, or if a number was given instead."""
        named = self._request.columns.lr
        if named is None or named in table.names or _number(named) is None:
            return named
        return None

    def _table(self, name: str) -> Table:
        path = Path(name)
        if path.is_dir():
            raise UsageError(f"{name}: found a folder; give a file")
        if path.exists():
            return read_table(path, name)
        run = mlflow_table.run_id(name)
        file, at, lr = name.rpartition("@")
        if at and (Path(file).is_file() or mlflow_table.run_id(file)):
            raise UsageError(f"{name}: found {lr!r} behind the @; it is the LR of {file}, a number above 0")
        if run is None:
            raise UsageError(
                f"{name}: there is no such file; correct its name (an MLflow run is given by its id, 32 hex digits)"
            )
        columns = self._request.columns
        return mlflow_table.read_run(run, name, self._request.tracking(), replace(columns, lr=None))


def _split_lr(word: str) -> tuple[str, float | None]:
    """`FILE@1e-3` in its two parts, unless there is a file of that very name."""
    name, at, number = word.rpartition("@")
    lr = _number(number) if at else None
    return (word, None) if lr is None or Path(word).exists() else (name, lr)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
