"""Table 2's form: architectures and their peak LRs as columns, a metric as a row, families with their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.intervals import LEVEL
from analysis.means import Mean
from analysis.metrics import LOSS, PERPLEXITY, Metric
from analysis.tables import caption
from analysis.tables.cells import axes_text, lacking, telling_axes
from analysis.tables.grid import VALIDATION, GridCell, GridTable, Variant, sensitivity
from analysis.tables.layout import Group, Table
from keel_lab.detect.verdict import Mode
from keel_lab.spec.label import label_text

BEST, RESPONSE = "*", "with LR"
_TITLES = {LOSS: "validation loss", PERPLEXITY: PERPLEXITY}


def layout(table: GridTable, titles: Mapping[str, str] | None = None) -> Table:
    """The table in words.

    Args:
        table: what is told.
        titles: architectures' names as they are to be printed, where they are not the sweep file's.
    """
    several = len(table.sweeps) > 1
    depths = sorted({cell.blocks for cell in table.cells})
    telling = telling_axes([cell.axes for cell in table.cells])
    lrs: dict[str, set[float]] = {}
    for cell in table.cells:
        lrs.setdefault(cell.architecture, set()).add(cell.lr)
    columns = {name: sorted(found) for name, found in lrs.items()}
    rows: dict[tuple[str, ...], dict[str, Variant]] = {}
    for variant in table.variants:
        sweep, architecture, blocks, axes = variant
        depth = (_depth(blocks),) if len(depths) > 1 else ()
        words = axes_text(tuple(axis for axis in axes if axis[0] in telling))
        rows.setdefault((*((sweep,) if several else ()), *depth, *((words,) if telling else ())), {})[architecture] = (
            variant
        )
    at = "" if len(depths) > 1 else f", {_depth(depths[0])}"
    return Table(
        title=f"Final metrics by architecture and peak LR{at}: {', '.join(one.stored.name for one in table.sweeps)}",
        stub=(
            *(("sweep",) if several else ()),
            *(("depth",) if len(depths) > 1 else ()),
            *(("axes",) if telling else ()),
            "metric",
        ),
        groups=tuple(
            Group((titles or {}).get(name, name), (*map(label_text, found), *((RESPONSE,) if len(found) > 1 else ())))
            for name, found in columns.items()
        ),
        rows=tuple(
            (
                *key,
                _TITLES.get(metric.name, metric.name),
                *(word for name, found in columns.items() for word in _words(table, metric, variants.get(name), found)),
            )
            for key, variants in rows.items()
            for metric in table.metrics
        ),
        notes=tuple(_notes(table)),
    )


def _depth(blocks: int) -> str:
    return f"{blocks} blocks ({2 * blocks} sub-layers)"


def _words(table: GridTable, metric: Metric, variant: Variant | None, lrs: Sequence[float]) -> list[str]:
    """One architecture's part of a row."""
    if variant is None:
        return ["-"] * (len(lrs) + (len(lrs) > 1))
    cells, found = {cell.lr: cell for cell in table.variants[variant]}, table.response(variant, metric)
    several, usual = len(cells) > 1, table.usual
    words = [_cell(cells[lr], metric, several and lr == found.best, usual) if lr in cells else "-" for lr in lrs]
    return [*words, *((found.words(),) if len(lrs) > 1 else ())]


def _cell(cell: GridCell, metric: Metric, best: bool, usual: int) -> str:
    value, total = cell.mean(metric), len(cell.readings)
    words = []
    if value is not None:
        seeds = "" if value.n == usual else f" (n={value.n})"
        words.append(f"{_number(metric, value)}{seeds}{f' {BEST}' if best else ''}")
    if cell.diverged:
        words.append(f"diverged {cell.diverged}/{total}")
    if cell.not_learned:
        words.append(f"not learned {cell.not_learned}/{total}")
    if missing := cell.finished - (0 if value is None else value.n):
        words.append(f"no finite {metric.name} {missing}/{total}")
    return ", ".join([*words, *lacking(cell.readings)])


def _number(metric: Metric, value: Mean) -> str:
    digits = ".4f" if metric.members[0].endswith("loss") else "#.4g"
    text = format(value.value, digits).rstrip(".")
    if value.low is None or value.high is None:
        return text
    return f"{text} [{format(value.low, digits).rstrip('.')}, {format(value.high, digits).rstrip('.')}]"


def _notes(table: GridTable) -> list[str]:
    schedule, readings = table.schedule, [one for cell in table.cells for one in cell.readings]
    decay = f"cosine to {label_text(schedule.final_lr)}" if schedule.shape == "cosine" else "constant"
    detectors = sorted({one.verdict.detector for one in readings if one.verdict is not None})
    return [
        f"Schedule: warm-up over {schedule.warmup_steps} of {schedule.steps} steps, then {decay}.",
        *_measure(table),
        *_response(table),
        *behind(table.cells),
        *([caption.NOT_LEARNED] if any(cell.not_learned for cell in table.cells) else []),
        *_sensitivity(table),
        *edges(table.cells),
        *([f"Verdicts by detector {', '.join(detectors)}."] if detectors else []),
        *caption.setting(table.sweeps, readings),
    ]


def _measure(table: GridTable) -> list[str]:
    means = [value for cell in table.cells for metric in table.metrics if (value := cell.mean(metric)) is not None]
    interval = any(value.low is not None for value in means)
    alone = all(value.n == 1 for value in means)
    spread = (
        f"with its {LEVEL:.0%} interval (Student's t over data seeds)"
        if interval
        else "one seed a cell, hence no interval"
        if alone
        else "one data seed a cell, hence no interval"
    )
    survivors = any(cell.diverged for cell in table.cells)
    notes = [
        f"Mean over n seeds, {spread}; n = {table.usual} where a cell does not say otherwise. Validation loss in "
        "nats a token, perplexity is exp of it (of its mean, of its interval)."
        + (" Where some seeds diverged, it is a mean of the survivors, which flatters." if survivors else "")
    ]
    if any(len(metric.members) > 1 for metric in table.metrics):
        notes.append(
            "mean of a family: the plain mean of the metrics that share what is before the slash; average: that of all "
            "scores in a family."
        )
    return notes


def _response(table: GridTable) -> list[str]:
    if all(len(cells) < 2 for cells in table.variants.values()):
        return []
    scores = [metric for metric in table.metrics if not metric.lower_is_better]
    better = "smaller is better for losses and perplexities, larger for all else" if scores else "smaller is better"
    return [
        f"{BEST}: the architecture's best LR ({better}) among those at which no seed diverged. "
        f"{RESPONSE}: whether each step up in LR improves or worsens the mean, a divergence being worse than any mean; "
        f"within noise: a step's {LEVEL:.0%} interval, over pairs of equal seeds, holds 0."
    ]


def _sensitivity(table: GridTable) -> list[str]:
    found = [(variant, sensitivity(cells)) for variant, cells in table.variants.items()]
    words = [f"{_called(table, variant)} {_number(VALIDATION, value)}" for variant, value in found if value is not None]
    told = (
        "LR sensitivity (Wortsman et al. 2023: the mean over these LRs of what the loss ends above its best, a "
        "divergence counted as a uniform guess; nats, smaller is more robust; compare over the same LRs only): "
    )
    return [f"{told}{'; '.join(words)}."] if words else []


def _called(table: GridTable, variant: Variant) -> str:
    _, architecture, blocks, axes = variant
    telling = telling_axes([cell.axes for cell in table.cells])
    depth = f", {blocks} blocks" if len({cell.blocks for cell in table.cells}) > 1 else ""
    words = axes_text(tuple(axis for axis in axes if axis[0] in telling))
    return f"{architecture}{depth}{f', {words}' if words else ''}"


def behind(cells: Sequence[GridCell]) -> list[str]:
    """Which cells end above the lower envelope of the lower LRs, on the same data: no divergence of their own."""
    found = []
    for cell in cells:
        slow = [one for one in cell.readings if one.degradation and one.degradation.mode is Mode.DEGRADATION]
        if slow:
            where = f"{cell.architecture}, {cell.blocks} blocks, LR {label_text(cell.lr)}"
            found.append(f"{where}: {len(slow)} of {len(cell.readings)}")
    told = "Degradation (mode 3), seeds that fell behind a lower LR on the same data for good: "
    return [f"{told}{'; '.join(found)}."] if found else []


def edges(cells: Sequence[GridCell]) -> list[str]:
    """Where the best LR of an architecture and depth is the largest or smallest tried: a bound, not an optimum."""
    groups: dict[tuple[str, str, int], list[GridCell]] = {}
    for cell in cells:
        groups.setdefault((cell.sweep, cell.architecture, cell.blocks), []).append(cell)
    found = []
    for (_, architecture, blocks), members in groups.items():
        lrs, variants = {cell.lr for cell in members}, {cell.variant for cell in members}
        means = [
            (value.value, cell.lr)
            for cell in members
            if not cell.diverged and (value := cell.mean(VALIDATION)) is not None
        ]
        if len(members) == len(variants) or len(lrs) < 2 or not means:  # an LR each: none was compared with another
            continue
        best = min(means)[1]
        for lr, sign, word in ((max(lrs), ">=", "largest"), (min(lrs), "<=", "smallest")):
            if best == lr:
                bound = f"best LR {sign} {label_text(best)}"
                found.append(f"{architecture}, {blocks} blocks: {bound}: it is the {word} tried; extend the grid.")
    return found
