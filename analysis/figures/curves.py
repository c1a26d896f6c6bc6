"""Loss curves of a sweep, a panel a cell: what the detector saw, and where it set the onset."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import notation
from analysis.figures.trace import Trace, traced
from analysis.readings import Counting, SweepReadings
from analysis.tables.cells import SeededCell, axes_text, by_cell, telling_axes
from analysis.tables.max_lr import estimate
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Mode, Status
from keel_lab.settings import RampSchedule

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RAW, PAIRED, ONSET, LEVEL = "#c8c8c8", "#0072b2", "#d55e00", "#000000"  # Okabe and Ito's, apart from the grey
BESIDE, REFERENCE = "#009e73", "its reference (a tenth of the peak) at the same step"
PANELS = 12  # a page
PAGES = 4  # a sweep; beyond that nobody looks, and each page takes seconds
ACROSS = 3
TITLE = 42  # characters that fit above a panel
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "keel_lab",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "path.simplify_threshold": 0.3,
}


def loss_curves(sweep: SweepReadings, curve: Callable[[str], Curve], into: Path) -> list[Path]:
    """Draws the finished trials of a sweep, all seeds of a cell in one panel, `PANELS` panels a page.

    Of more cells than `PAGES` pages hold, those that diverged or fell behind come first; each page says how many.

    Ramps have the LR across (log), other schedules the step. Grey: loss; blue: paired loss; dashed: the unigram level
    H1; orange: the onset of divergence. Where a cell has one seed and that a reference, it is drawn in green at
    the same steps, with where the trial falls behind its siblings.

    Args:
        sweep: what is drawn.
        curve: reads a trial's curve by its id.
        into: the folder to write to; made if need be.

    Returns:
        `loss-NAME.png` and `.svg`, or `loss-NAME-1.png` ... for several pages. The same results give the same bytes.
    """
    finished = by_cell(one for one in sweep.readings if one.result is not None)
    room = PANELS * PAGES
    cells = sorted(sorted(finished, key=_quiet)[:room], key=lambda one: one.cell.blocks)
    left_out = f"; {room} of {len(finished):,} cells, those that diverged first" if len(finished) > room else ""
    pages = [cells[start : start + PANELS] for start in range(0, len(cells), PANELS)]
    into.mkdir(parents=True, exist_ok=True)
    telling = telling_axes([cell.cell.axes for cell in cells])
    written = []
    references = {one.planned.trial.id for one in sweep.beside if one.result is not None}
    for number, page in enumerate(pages, start=1):
        stem = f"loss-{sweep.stored.name}" + (f"-{number}" if len(pages) > 1 else "")
        traces = [[traced(one, curve, references) for one in cell.readings] for cell in page]
        written += _write(page, traces, telling, left_out, into / stem)
    return written


def _quiet(cell: SeededCell) -> bool:
    """Whether no seed diverged, by itself or beside its siblings."""
    verdicts = [verdict for one in cell.readings for verdict in (one.verdict, one.degradation)]
    return not any(verdict is not None and verdict.status is Status.DIVERGED for verdict in verdicts)


def _write(
    cells: Sequence[SeededCell], traces: Sequence[Sequence[Trace]], telling: set[str], left_out: str, stem: Path
) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(ACROSS, len(cells))
    down = math.ceil(len(cells) / across)
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(max(5.0, 3.3 * across), 2.5 * down + 0.9), layout="constrained")
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).tolist()
        for index, axes in enumerate(axes for row in panels for axes in row):
            if index >= len(cells):
                axes.set_visible(False)
                continue
            _draw(axes, cells[index], traces[index], telling)
            axes.tick_params(labelbottom=index + across >= len(cells))
        _frame(figure, panels, traces, left_out)
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
        figure.savefig(paths[0], dpi=120, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _draw(axes: Axes, cell: SeededCell, traces: Sequence[Trace], telling: set[str]) -> None:
    single = len(traces) == 1
    thin, strength = (0.8, 1.0) if single else (0.5, 0.6)
    for trace in traces:
        if trace.paired:
            axes.plot(trace.x, trace.raw, color=RAW, linewidth=0.75 * thin, label="loss", zorder=1)
    for trace in traces:
        label = "paired loss" if trace.paired else "loss"
        axes.plot(trace.x, trace.main, color=PAIRED, linewidth=thin, alpha=strength, label=label, zorder=2)
        if trace.onset is not None:
            axes.axvline(trace.onset, color=ONSET, linewidth=1.1, alpha=strength, label="onset", zorder=3)
        if single and trace.reference:
            axes.plot(
                trace.x[: len(trace.reference)],
                trace.reference,
                color=BESIDE,
                linewidth=thin,
                label=REFERENCE,
                zorder=1.5,
            )
        if single and trace.behind is not None:
            axes.axvline(trace.behind, color=ONSET, linewidth=1.1, linestyle=":", label="falls behind", zorder=3)
    for level in sorted({trace.level for trace in traces if trace.level is not None}):
        axes.axhline(level, color=LEVEL, linewidth=0.8, linestyle="--", label="unigram level H1", zorder=2)
    _name_onsets(axes, [trace for trace in traces if trace.onset is not None], single)
    _title(axes, cell, telling)


def _name_onsets(axes: Axes, traces: Sequence[Trace], single: bool) -> None:
    if not traces:
        return
    first = min(traces, key=lambda trace: trace.onset or 0.0)
    verdict, at = first.reading.verdict, first.onset or 0.0
    words = f"onset, step {verdict.onset_step}" if single and verdict is not None else "onset" + "s" * (len(traces) > 1)
    early = at < 3 * first.x[0]  # no room on its left
    axes.annotate(
        words,
        (at, 0.97),
        (3 if early else -3, 0),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        rotation=90,
        ha="left" if early else "right",
        va="top",
        fontsize=8,
        color=ONSET,
    )


def _title(axes: Axes, cell: SeededCell, telling: set[str]) -> None:
    extra = axes_text(tuple(axis for axis in cell.cell.axes if axis[0] in telling))
    name = f"{cell.cell.architecture}, {cell.cell.blocks} blocks" + (f", {extra}" if extra else "")
    lines = [name] if len(name) <= TITLE else name.replace(":", ":\n", 1).splitlines()
    lines = [line.replace("$", r"\$") for line in lines]  # words, not formulas
    wrapped = [part for line in lines for part in textwrap.wrap(line, TITLE)]
    axes.set_title("\n".join(wrapped), fontsize=9.5, fontweight="bold", pad=17)
    axes.text(0.5, 1.03, _finding(cell), transform=axes.transAxes, ha="center", va="bottom", fontsize=8.5)


def _finding(cell: SeededCell) -> str:
    value = estimate(cell.readings)
    modes = [notation.modes(value)] if value.modes else []
    if any(one.max_lr is not None for one in cell.readings):
        lr = notation.max_lr(value)
        slow = estimate(cell.readings, Counting.DEGRADATION)
        behind = [f"falls behind at {notation.max_lr(slow)}"] if dict(slow.modes).get(Mode.DEGRADATION) else []
        return ", ".join([lr if value.median is None else f"Max LR {lr}", *modes, *behind])
    verdicts = {str(one.verdict.status) for one in cell.readings if one.verdict is not None}
    return ", ".join([*sorted(verdicts), *modes])


def _frame(figure: Figure, panels: Sequence[Sequence[Axes]], traces: Sequence[Sequence[Trace]], left_out: str) -> None:
    everything = [trace for panel in traces for trace in panel]
    ramped = isinstance(everything[0].reading.planned.trial.schedule, RampSchedule)
    if ramped:
        panels[0][0].set_xscale("log")
    panels[0][0].set_ylim(*_limits(everything))
    for row in panels:
        row[0].set_ylabel("nats a token")
    figure.supxlabel(f"{'learning rate' if ramped else 'step'}{left_out}", fontsize=9)
    found: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside upper center",
        ncols=min(len(found), 2 * len(panels[0])),
        frameon=False,
    )


def _limits(traces: Sequence[Trace]) -> tuple[float, float]:
    """Losses worth seeing: from the best to a nat above H1, or as far up as the last half of a run lives.

    The first fall runs out of the panel, and so does a loss that blew up: it must not flatten all the others.
    """
    finite = [losses for trace in traces if (losses := [loss for loss in trace.main if math.isfinite(loss)])]
    if not finite:
        return 0.0, 1.0
    lasting = [sorted(losses[len(losses) // 2 :]) for losses in finite]
    low = min(losses[len(losses) // 50] for losses in lasting)
    high = max(losses[-1 - len(losses) // 50] for losses in lasting)
    levels = [trace.level for trace in traces if trace.level is not None]
    high = min(max([high, *(level + 1.0 for level in levels)]), max(losses[0] for losses in finite) + 0.5)
    margin = 0.1 * max(high - low, 0.1)
    return low - 2 * margin, high + margin
