"""What `keel-lab validate` finds: everything that would stop a run of a sweep file before its first step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from keel_lab.counted import counted
from keel_lab.errors import UsageError
from keel_lab.plan.opening import OpenedSweep
from keel_lab.schedule import worker
from keel_lab.schedule.shapes import one_of_each_shape


def checked(opened: OpenedSweep) -> OpenedSweep:
    """The sweep, once its trainer has seen a trial of each shape.

    Raises:
        UsageError: with everything that the trainer refuses.
    """
    samples = () if opened.points is None else opened.points.samples()
    trials = one_of_each_shape(planned.trial for planned in (*opened.plan.trials, *samples))
    problems = [problem for trial in trials if (problem := worker.preflight(trial)) is not None]
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    return opened


def sentence(file: str, opened: OpenedSweep) -> str:
    """`sweeps/table1.yaml: valid: sweep table1, 60 trials in 12 cells`."""
    if opened.points is not None:
        searches = counted(len(opened.points.cells), "search")
        return f"{file}: valid: sweep {opened.spec.name}, {searches} of {opened.points.search.points} points"
    trials = opened.plan.trials
    cells = len({planned.cell for planned in trials})
    return f"{file}: valid: sweep {opened.spec.name}, {counted(len(trials), 'trial')} in {counted(cells, 'cell')}"


def report(file: str, open_sweep: Callable[[], OpenedSweep]) -> tuple[str, int]:
    """The same for a program: a JSON object with every problem, and the exit code."""
    content: dict[str, Any] = {"file": file, "valid": True, "problems": []}
    try:
        opened = checked(open_sweep())
    except UsageError as error:
        problems = [{**asdict(one), "message": str(one)} for one in getattr(error, "problems", ())]
        content |= {"valid": False, "problems": problems or [{"message": line} for line in str(error).splitlines()]}
        return json.dumps(content, indent=2), error.exit_code
    trials = opened.plan.trials
    content |= {"name": opened.spec.name, "trials": len(trials), "cells": len({one.cell for one in trials})}
    return json.dumps(content, indent=2), 0
