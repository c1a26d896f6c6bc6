"""What `keel-lab probe` shows of a sweep: its table in each format, and a figure for each depth and width."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.tables import gradient_flow as tables
from analysis.tables.layout import to_markdown, to_text
from keel_lab.errors import UsageError
from keel_lab.gradient_flow import Probed

if TYPE_CHECKING:
    from keel_lab.store.root import Root

SCHEMA = 1
FORMATS = ("text", "md", "csv", "json")


def build(sweep: str, probed: Sequence[Probed], format: str = "text") -> str:
    """The table of all trials and moments.

    Args:
        sweep: its name.
        probed: at least one trial.
        format: `text`, `md`, `csv` or `json`.

    Raises:
        UsageError: if there is no such format.
    """
    rows = tables.records(probed)
    if format == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if _missing(value) else value for key, value in row.items()} for row in rows)
        return text.getvalue()
    if format == "json":
        known = [{key: None if _missing(value) else value for key, value in row.items()} for row in rows]
        return json.dumps({"schema": SCHEMA, "sweep": sweep, "rows": known}, indent=2, allow_nan=False) + "\n"
    if format not in FORMATS:
        raise UsageError(f"format {format!r} is not known; formats are {', '.join(FORMATS)}")
    table = tables.layout(rows, f"Flow of activations and gradients: {sweep}")
    return (to_text if format == "text" else to_markdown)(table)


def store_figures(sweep: str, probed: Sequence[Probed], root: Root) -> list[Path]:
    """Draws a figure for each depth and width into storage, `probes/SWEEP/`.

    Returns:
        The files on this machine, see `store.flows.put_file`.
    """
    from analysis.figures.gradient_flow import draw
    from keel_lab.store import flows

    drafts = Path(tempfile.mkdtemp(prefix="keel-lab-figures-"))
    found = [flows.put_file(root, sweep, draft) for draft in draw(probed, drafts)]
    if drafts not in {path.parent for path in found}:
        shutil.rmtree(drafts)
    return found


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
