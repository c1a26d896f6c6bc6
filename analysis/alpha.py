"""What alpha does, from stored sweeps over it: tables by alpha, by shape and by axis, and a figure.

Run: python -m analysis.alpha SWEEP... [--storage URI] [--format text|md|csv|json] [--figure FILE.png]

Ramp and grid sweeps over the same models share rows; `keel-lab probe` of a grid's trial gives its branches' strength.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.alpha_moves import moves
from analysis.branch_strength import AlphaLine, lines
from analysis.readings import open_root, read
from analysis.tables import best_alpha
from analysis.tables import branch_strength as tables
from analysis.tables.caption import progress
from analysis.tables.layout import to_markdown, to_text
from keel_lab.errors import UsageError
from keel_lab.store import flows

if TYPE_CHECKING:
    from keel_lab.store.root import Root

SCHEMA = 1
FORMATS = ("text", "md", "csv", "json")


def build(names: Sequence[str], storage: Root | Path | str | None = None, format: str = "text") -> str:
    """The tables over alpha; equal results give equal bytes.

    Args:
        names: sweeps in storage, each of them over alpha (or c, of pre_ln_scaled).
        storage: the storage root; None for KEEL_LAB_STORAGE, else `./keel-lab-store`.
        format: `text`, `md`, or `csv` and `json` with a record an alpha.

    Raises:
        UsageError: if there is no such sweep or format, or a trial has no alpha.
    """
    if format not in FORMATS:
        raise UsageError(f"format {format!r} is not known; formats are {', '.join(FORMATS)}")
    ahead, found = _lines(names, storage)
    if format == "json":
        content = {"schema": SCHEMA, "sweeps": list(names), "rows": tables.records(found)}
        return json.dumps(content, indent=2, allow_nan=False) + "\n"
    if format == "csv":
        rows = [{**row, "axes": ";".join(f"{k}={v}" for k, v in row["axes"].items())} for row in tables.records(found)]
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
    titled = ", ".join(names)
    made = [
        tables.by_alpha(found, titled),
        best_alpha.by_shape(found, titled),
        best_alpha.by_axis(moves(found), titled),
    ]
    write = to_text if format == "text" else to_markdown
    return "\n".join([*ahead, *(write(table) for table in made if table is not None)])


def figure(names: Sequence[str], storage: Root | Path | str | None, into: Path) -> Path:
    """Draws the same into a PNG file, see `analysis.figures.branch_strength`."""
    from analysis.figures.branch_strength import draw

    return draw(_lines(names, storage)[1], into)


def _lines(names: Sequence[str], storage: Root | Path | str | None) -> tuple[list[str], list[AlphaLine]]:
    """What is still out, and what there is."""
    root = open_root(storage)
    sweeps = read(names, root)
    ahead = [f"{line}\n" for line in map(progress, sweeps) if line is not None]
    return ahead, lines(sweeps, lambda trial_id: flows.load(root, trial_id))


def main(words: Sequence[str] | None = None) -> int:
    """See the module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m analysis.alpha", description=__doc__)
    parser.add_argument("sweep", nargs="+")
    parser.add_argument("--storage")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args(words)
    try:
        sys.stdout.write(build(given.sweep, given.storage, given.format))
        if given.figure is not None:
            sys.stderr.write(f"figure: {figure(given.sweep, given.storage, given.figure)}\n")
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
