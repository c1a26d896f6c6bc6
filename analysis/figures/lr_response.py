"""Final validation loss against peak LR, a line an architecture: how much rate each one takes, and what it buys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.figures.curves import STYLE
from analysis.readings import SweepReadings
from analysis.tables.cells import axes_text, telling_axes
from analysis.tables.grid import VALIDATION, GridCell, GridTable, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito's
MARKS = ("o", "s", "^", "D", "v", "P", "X")
_LOST = 0.97  # height at which an LR stands at which seeds diverged, as a share of the panel


def lr_responses(sweep: SweepReadings, into: Path) -> list[Path]:
    """Draws each schedule of a grid sweep that has several LRs, a panel a depth.

    A line joins the means over seeds, bars are their 90% intervals, faint marks are seeds. An LR at which seeds
    diverged has a cross at the top, with how many; the mean of its survivors, if any, is left out of the line.

    Args:
        sweep: what is drawn.
        into: the folder to write to; made if need be.

    Returns:
        `lr-NAME.png` and `.svg`, numbered from the second schedule on. The same results give the same bytes.
    """
    drawn = [table for table in tables([sweep]) if _worth_it(table)]
    written = []
    for number, table in enumerate(drawn, start=1):
        into.mkdir(parents=True, exist_ok=True)
        written += _write(table, into / (f"lr-{sweep.stored.name}" + (f"-{number}" if number > 1 else "")))
    return written


def _worth_it(table: GridTable) -> bool:
    finished = [cell for cell in table.cells if cell.finished or cell.diverged]
    return len({cell.lr for cell in finished}) > 1 and any(cell.mean(VALIDATION) for cell in finished)


def _write(table: GridTable, stem: Path) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    depths = sorted({cell.blocks for cell in table.cells})
    telling = telling_axes([cell.axes for cell in table.cells])
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(1.4 + 4.2 * len(depths), 3.6), layout="constrained")
        panels = figure.subplots(1, len(depths), sharey=True, squeeze=False).tolist()[0]
        for axes, blocks in zip(panels, depths, strict=True):
            lines = [(variant, cells) for variant, cells in table.variants.items() if variant[2] == blocks]
            for index, ((_, architecture, _, others), cells) in enumerate(lines):
                words = axes_text(tuple(axis for axis in others if axis[0] in telling))
                _draw(axes, cells, f"{architecture} {words}".strip().replace("$", r"\$"), index)
            axes.set_xscale("log")
            axes.set_xlabel("peak learning rate")
            axes.set_title(f"{blocks} blocks ({2 * blocks} sub-layers)", fontsize=9.5, fontweight="bold")
            axes.margins(x=0.12, y=0.18)
            axes.legend(loc="best", frameon=False)
        panels[0].set_ylabel("validation loss, nats a token")
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
        figure.savefig(paths[0], dpi=120, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _draw(axes: Axes, cells: Sequence[GridCell], name: str, index: int) -> None:
    colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
    for cell in cells:
        seeds = list(cell.values(VALIDATION).values())
        axes.plot([cell.lr] * len(seeds), seeds, mark, color=colour, alpha=0.35, markersize=3.5, markeredgewidth=0)
        if cell.diverged:
            axes.plot(
                [cell.lr], [_LOST], "x", color=colour, markersize=7, transform=axes.get_xaxis_transform(), zorder=3
            )
            axes.annotate(
                f"{cell.diverged}/{len(cell.readings)} diverged",
                (cell.lr, _LOST),
                (0, -8 - 9 * index),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7.5,
                color=colour,
            )
    kept = [(cell.lr, value) for cell in cells if not cell.diverged and (value := cell.mean(VALIDATION)) is not None]
    axes.errorbar(
        [lr for lr, _ in kept],
        [value.value for _, value in kept],
        yerr=[0.0 if value.high is None else value.high - value.value for _, value in kept],
        color=colour,
        marker=mark,
        markersize=5,
        linewidth=1.2,
        capsize=3,
        label=name,
        zorder=2,
    )
