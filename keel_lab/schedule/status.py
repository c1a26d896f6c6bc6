"""What `keel-lab status` prints: how far a stored sweep is, cell by cell. Reads only."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from keel_lab.columns import aligned
from keel_lab.counted import counted
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.siblings import with_forks
from keel_lab.plan.skipping import above_divergence
from keel_lab.result import Failure, Outcome, TrialResult
from keel_lab.schedule.cell_verdicts import told_worse
from keel_lab.schedule.live_snapshot import read_snapshot
from keel_lab.schedule.progress import describe, describe_beside
from keel_lab.schedule.settled import settled_results
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

WAITING, RUNNING, STOPPED, FAILED, SKIPPED = "waiting", "running", "stopped", "failed", "skipped"


def describe_status(name: str, root: Root, *, as_json: bool) -> str:
    """The status of a stored sweep as text or JSON, without a trailing newline.

    Raises:
        UsageError: if there is no sweep of that name.
    """
    status = read_status(name, root)
    return json.dumps(status, indent=2, allow_nan=False) if as_json else status_text(status)


def read_status(name: str, root: Root) -> dict[str, Any]:
    """The status of a stored sweep, JSON-ready: how many trials are in which state, and each trial in its cell.

    Raises:
        UsageError: if there is no sweep of that name.
    """
    sweep = Sweeps(root).load(name)
    trials = Trials(root)
    results = settled_results(trials, sweep.trials, sweep.thresholds, sweep.siblings)
    planned_trials = with_forks(sweep.trials, results, sweep.siblings)
    driver = lease.holder(root, name)
    running, news = read_snapshot(root, name) if driver else ({}, {})
    beside = {**told_worse(sweep, results, Sweeps(root), root), **news}
    rows = [_trial(planned, results.get(planned.trial.id), running, trials) for planned in planned_trials]
    verdicts = {trial_id: result.verdict for trial_id, result in results.items()}
    skipped = above_divergence(sweep.trials, verdicts) if sweep.skips_above_divergence else frozenset()
    for row, planned in zip(rows, planned_trials, strict=True):
        if row["id"] in results and (worse := beside.get(row["id"])):
            told = {key: worse.to_json()[key] for key in ("status", "mode", "onset_step")}
            row |= {"verdict": f"{row['verdict']}; {describe_beside(worse, planned.trial)}", "beside": told}
        if row["id"] in skipped and row["state"] == WAITING:
            row |= {"state": SKIPPED, "verdict": "a lower LR diverged"}
        if row["id"] in sweep.cut and row["state"] in (WAITING, STOPPED):
            row |= {"state": SKIPPED, "verdict": "cut by the pruner"}
        if driver and row["state"] == FAILED:  # its driver gives up only when it says so, at its end
            row["state"] = WAITING
    counts = Counter(row["state"] for row in rows)
    asked = sum(not point.fresh for point in sweep.points)
    search = {"points": {"asked": asked, "of": sweep.points_to_ask}} if sweep.points_to_ask else {}
    ended = counts[Outcome.COMPLETED] + counts[Outcome.DIVERGED] + counts[SKIPPED] == len(rows)
    return {
        "name": name,
        "question": sweep.spec.get("question"),
        "driver": driver,
        "trials": len(rows),
        "states": dict(sorted(counts.items())),
        **search,
        "complete": ended and asked >= sweep.points_to_ask,
        "cells": _cells(planned_trials, rows),
    }


def _trial(
    planned: PlannedTrial,
    result: TrialResult | None,
    running: Mapping[str, Mapping[str, Any]],
    trials: Trials,
) -> dict[str, Any]:
    row: dict[str, Any] = {"id": planned.trial.id, "name": planned.name, "steps": planned.trial.schedule.steps}
    if result is not None:
        words = describe(result.verdict, planned.trial)
        row |= {"state": str(result.outcome), "step": result.steps, "verdict": words}
        once = result.execution.get("attempt", 1) == 1  # of thousands, only those that failed before are looked up
        return row if once else row | _before(trials.attempts(planned.trial.id), words)
    attempts = trials.attempts(planned.trial.id)
    live = running.get(planned.trial.id)
    if live is not None:
        loss = live["loss"] if math.isfinite(live["loss"]) else None
        row |= {"state": RUNNING, "step": live["step"], "loss": loss, "verdict": live["state"]}
        return row | _before(attempts, live["state"])
    if attempts:
        last = attempts[-1]
        return {**row, "state": FAILED, **_before(attempts, ""), "verdict": f"{last.kind}: {last.message}"}
    step = trials.checkpoint_step(planned.trial.id)
    return {**row, "state": WAITING} if step is None else {**row, "state": STOPPED, "step": step}


def _before(attempts: Sequence[Failure], words: str) -> dict[str, Any]:
    """How often a trial failed, why, and its words with that; nothing if it never did."""
    if not attempts:
        return {}
    kinds = [f"{kind}{f' x {count}' if count > 1 else ''}" for kind, count in Counter(a.kind for a in attempts).items()]
    return {
        "attempts": len(attempts),
        "failures": [{"kind": str(one.kind), "message": one.message, "node": one.node} for one in attempts],
        "verdict": f"{words}; failed before: {', '.join(kinds)}",
    }


def _cells(trials: Sequence[PlannedTrial], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    cells: dict[Any, dict[str, Any]] = {}
    for planned, row in zip(trials, rows, strict=True):
        cell = cells.setdefault(planned.cell, {"cell": str(planned.cell), **planned.cell.to_json(), "trials": []})
        cell["trials"].append(row)
    return list(cells.values())


def status_text(status: Mapping[str, Any], room: int | None = None) -> str:
    """A status as a table; where it has more than `room` rows, those that run or failed come first."""
    states = ", ".join(f"{count} {state}" for state, count in status["states"].items())
    driver = status["driver"]
    who = "complete" if status["complete"] else "nobody runs it now"
    if driver and driver.get("pid") is not None:
        since = datetime.fromtimestamp(driver["started"]).astimezone().isoformat(" ", "seconds")
        who = f"run by pid {driver['pid']} on {driver['host']} since {since}"
    lines = [("trial", "state", "step", "loss", "verdict")]
    rows = [row for cell in status["cells"] for row in cell["trials"]]
    if room is not None and len(rows) > room:
        rows.sort(key=lambda row: (RUNNING, FAILED).index(row["state"]) if row["state"] in (RUNNING, FAILED) else 2)
    lines += map(_line, rows[:room])
    more = f"\nand {len(rows) - room} more" if room is not None and len(rows) > room else ""
    hint = "" if status["complete"] or driver else f"\ngo on with: keel-lab resume {status['name']}"
    failed = next((row["name"] for row in rows if row["state"] == FAILED), None)
    hint += f"\nwhy it failed: keel-lab logs {status['name']}/{failed}" if failed else ""
    held = any(row.get("step", 0) > row["steps"] for row in rows)
    hint += "\nsteps beyond the schedule's: it held its last LR until it was settled" if held else ""
    points = status.get("points")
    asked = f"{points['asked']} of {points['of']} points asked; " if points else ""
    head = f"sweep {status['name']}: {asked}{counted(status['trials'], 'trial')}: {states}; {who}"
    return f"{head}\n\n{aligned(lines, right={2, 3})}{more}{hint}"


def _line(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    loss = row.get("loss")
    step = f"{row['step']}/{row['steps']}" if "step" in row else f"-/{row['steps']}"
    return row["name"], row["state"], step, "-" if loss is None else f"{loss:.3f}", row.get("verdict", "-")
