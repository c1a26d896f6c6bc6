"""A sweep's report in each format, and its figures: what `keel-lab report` and the tracker's summary print."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures import drawn
from analysis.readings import SweepReadings, open_root, read
from analysis.search import records as search_records
from analysis.search import tables as search_tables
from analysis.search.findings import Search, is_search, searches
from analysis.tables import caption, grid, grid_layout, grid_records, max_lr, max_lr_paper, max_lr_records
from analysis.tables.latex import to_latex
from analysis.tables.layout import Table, to_markdown, to_text
from keel_lab.collector import held_back
from keel_lab.errors import UsageError
from keel_lab.spec.label import label_text
from keel_lab.store.trials import Trials

if TYPE_CHECKING:
    from keel_lab.store.root import Root

SCHEMA = 1
FORMATS = ("text", "md", "csv", "json", "tex")


def build(names: str | Sequence[str], storage: Root | Path | str | None = None, format: str = "text") -> str:
    """The report of one or several sweeps; equal results give equal bytes in every format.

    Ramp sweeps give one table a ramp, grid sweeps one a schedule. `csv` has a row a cell, of grid sweeps a row a cell
    and metric; `json` adds every seed's Max LR.

    Args:
        names: a sweep in storage, or several.
        storage: the storage root; None for KEEL_LAB_STORAGE, else `./keel-lab-store`.
        format: `text` for terminals, `md`, `csv`, `json`, or `tex` for papers: LaTeX with booktabs, Table 1 in the
            paper's form.

    Raises:
        UsageError: if there is no such sweep or format, or one CSV was asked of both ramp and grid sweeps.
    """
    if format not in FORMATS:
        raise UsageError(f"report format {format!r} is not known; formats are {', '.join(FORMATS)}")
    with held_back():
        return _built([names] if isinstance(names, str) else names, open_root(storage), format)


def _built(names: Sequence[str], root: Root, format: str) -> str:
    sweeps = read(names, root)
    searched = [one for sweep in sweeps if is_search(sweep) for one in searches(sweep, Trials(root))]
    others = [sweep for sweep in sweeps if not is_search(sweep)]
    if format == "csv":
        return _csv(others, searched)
    if format == "json":
        return _json(others, searched)
    if format == "tex":
        return _tex(others, searched)
    tables: list[Table] = [max_lr.layout(table) for table in max_lr.tables(others)]
    tables += [grid_layout.layout(table) for table in grid.tables(others)]
    tables += [table for one in searched for table in search_tables.layouts(one)]
    write = to_text if format == "text" else to_markdown
    ahead = [line for line in map(caption.progress, sweeps) if line is not None]
    return "\n".join([*(f"{line}\n" for line in ahead), *map(write, tables)])


def figures(names: Sequence[str], storage: Root | Path | str | None, into: Path) -> list[Path]:
    """Draws the loss curves of each sweep, and a grid's final loss against LR, as PNG and SVG into a folder.

    The folder is made if need be.

    Returns:
        The files written; none for a sweep of which nothing has finished.

    Raises:
        UsageError: if there is no such sweep.
    """
    root = open_root(storage)
    return [path for sweep in read(names, root) for path in _drawn(sweep, root, into)]


def store_figures(names: Sequence[str], storage: Root | Path | str | None = None) -> list[Path]:
    """Draws the figures into storage, `sweeps/NAME/figures/`, where new ones replace old ones of other results.

    Returns:
        The files on this machine: the stored ones, or on an object store the copies that were uploaded.

    Raises:
        UsageError: if there is no such sweep.
    """
    from keel_lab.store.sweeps import Sweeps

    root, found = open_root(storage), []
    drafts = Path(tempfile.mkdtemp(prefix="keel-lab-figures-"))
    try:
        for sweep in read(names, root):
            before = drawn.stored(root, sweep)
            if before is not None:
                found += before
                continue
            fresh = _drawn(sweep, root, drafts)
            for draft in fresh:
                path = Sweeps(root).put_file(sweep.stored.name, f"figures/{draft.name}", draft.read_bytes())
                found.append(root.local(path) or draft)
            names_drawn = [draft.name for draft in fresh]
            Sweeps(root).put_file(sweep.stored.name, drawn.FILE, drawn.note(sweep, names_drawn))
    finally:
        if drafts not in {path.parent for path in found}:
            shutil.rmtree(drafts)
    return found


def _drawn(sweep: SweepReadings, root: Root, into: Path) -> list[Path]:
    if is_search(sweep):
        from analysis.search.figures import search_figures

        return search_figures(searches(sweep, Trials(root)), into)
    from analysis.figures.curves import loss_curves
    from analysis.figures.lr_response import lr_responses

    return [*loss_curves(sweep, Trials(root).curve, into), *lr_responses(sweep, into)]


def _csv(sweeps: Sequence[SweepReadings], searched: Sequence[Search]) -> str:
    ramps = [row for table in max_lr.tables(sweeps) for row in max_lr_records.records(table)]
    grids = [row for table in grid.tables(sweeps) for row in grid_records.records(table)]
    points = search_records.records(searched)
    if sum(map(bool, (ramps, grids, points))) > 1:
        raise UsageError(
            "a CSV holds one kind of table: ask for ramp sweeps, grid sweeps and searches in reports of their own"
        )
    rows = ramps or grids or points
    if not rows:
        raise UsageError("no point of this search was asked yet: there is nothing to write as CSV")
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _flat(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _tex(sweeps: Sequence[SweepReadings], searched: Sequence[Search]) -> str:
    tables = [max_lr_paper.layout(table) for table in max_lr.tables(sweeps)]
    tables += [grid_layout.layout(table, max_lr_paper.TITLES) for table in grid.tables(sweeps)]
    tables += [table for one in searched for table in search_tables.layouts(one)]
    ahead = [f"% {line}\n" for line in map(caption.progress, sweeps) if line is not None]
    name = "-".join(dict.fromkeys(one.stored.name for one in (*sweeps, *(search.sweep for search in searched))))
    labels = [name, *(f"{name}-{number}" for number in range(2, len(tables) + 1))]
    return "\n".join([*ahead, *map(to_latex, tables, labels)])


def _flat(value: Any) -> Any:
    if isinstance(value, dict):
        return ";".join(f"{key}={label_text(item)}" for key, item in value.items())
    return ";".join(value) if isinstance(value, list) else value


def _json(sweeps: Sequence[SweepReadings], searched: Sequence[Search]) -> str:
    tables: list[dict[str, Any]] = []
    for ramped in max_lr.tables(sweeps):
        cells = zip(max_lr_records.records(ramped), ramped.cells, strict=True)
        rows = [{**record, "readings": max_lr_records.seed_records(cell)} for record, cell in cells]
        tables.append(
            {"protocol": "ramp", "ramp": ramped.ramp.model_dump(mode="json", exclude={"kind"}), "cells": rows}
        )
    for gridded in grid.tables(sweeps):
        schedule = gridded.schedule.model_dump(mode="json", exclude={"kind", "lr"})
        tables.append({"protocol": "grid", "schedule": schedule, "cells": grid_records.records(gridded)})
    for one in searched:
        objectives = {objective.name: objective.direction for objective in one.objectives}
        rows = search_records.records([one])
        tables.append({"protocol": "search", "objectives": objectives, "importance": one.importance, "cells": rows})
    all_sweeps = [*sweeps, *(one.sweep for one in searched)]
    thresholds = {sweep.stored.name: sweep.stored.thresholds.model_dump(mode="json") for sweep in all_sweeps}
    content = {"schema": SCHEMA, "sweeps": list(thresholds), "thresholds": thresholds, "tables": tables}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"
