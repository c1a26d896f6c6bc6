"""Which figures are in storage and of what they were drawn: a report of the same results draws none again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.readings import Reading, SweepReadings

if TYPE_CHECKING:
    from keel_lab.store.root import Root

FILE = "figures/drawn.json"


def digest(sweep: SweepReadings) -> str:
    """Of all that the figures show: verdicts by every rule, which curves, and the code that draws."""
    found = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        found.update(source.read_bytes())
    for one in (*sweep.readings, *sweep.beside):
        found.update(f"{_told(one)}\n".encode())
    return found.hexdigest()


def stored(root: Root, sweep: SweepReadings) -> list[Path] | None:
    """The figures of the sweep's very results on this machine; None if they have to be drawn."""
    path = f"sweeps/{sweep.stored.name}/{FILE}"
    if root.local(path) is None:
        return None
    try:
        content = json.loads(root.read(path))
        names, same = [str(name) for name in content["files"]], content["digest"] == digest(sweep)
    except (FileNotFoundError, KeyError, TypeError, ValueError):  # none, or not ours: they are drawn
        return None
    paths = [f"sweeps/{sweep.stored.name}/figures/{name}" for name in names]
    whole = same and len(root.stats(paths)) == len(paths)
    return [local for one in paths if (local := root.local(one)) is not None] if whole else None


def note(sweep: SweepReadings, names: Sequence[str]) -> bytes:
    """What is stored beside them, at `FILE`."""
    return json.dumps({"digest": digest(sweep), "files": list(names)}, indent=1).encode()


def _told(one: Reading) -> tuple[object, ...]:
    verdicts = [
        (verdict.status, verdict.mode, verdict.onset_step, verdict.last_good_step, verdict.last_good_lr)
        for verdict in (one.verdict, one.degradation, one.irreversible)
        if verdict is not None
    ]
    result = one.result
    told = () if result is None else (result.steps, sorted(result.metrics.items()), result.execution.get("finished_at"))
    return (one.planned.trial.id, str(one.planned.cell), one.state, one.max_lr, *verdicts, *told)
