"""Max LR, final loss and strength of the branch against alpha in units of L, a line an architecture and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.branch_strength import AlphaLine, AlphaRow, difference, loss
from analysis.figures.curves import STYLE
from analysis.figures.lr_response import COLOURS, MARKS
from analysis.means import Mean
from analysis.tables.cells import axes_text, telling_axes
from analysis.tables.gradient_flow import branch_to_stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float, float]  # value, low, high
FEW = 4  # lines whose legend fits into a panel


def draw(lines: Sequence[AlphaLine], into: Path) -> Path:
    """Draws a panel for each of the three that the lines have.

    Points have 90% intervals where there are any. With several shapes, whose losses differ anyway, the loss is drawn as
    the paired difference from each line's alpha = L, or its nearest, without intervals: the table has them.

    Args:
        lines: at least one.
        into: the PNG file to write; its folder is made if need be.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    shapes = {line.rows[0].trial.model for line in lines}
    told = _panels(lines, relative=len(shapes) > 1)
    telling = telling_axes([line.axes for line in lines])
    into.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(1.2 + 3.8 * len(told) + 2.2 * (len(lines) > FEW), 3.8), layout="constrained")
        panels = figure.subplots(1, len(told), squeeze=False).tolist()[0]
        for axes, (title, points, log) in zip(panels, told, strict=True):
            for index, line in enumerate(lines):
                words = axes_text(tuple(axis for axis in line.axes if axis[0] in telling))
                _line(axes, line, points, f"{line.rows[0].trial.architecture} {words}".strip(), index)
            axes.set_xscale("log", base=2)
            if log:
                axes.set_yscale("log")
            elif len(shapes) > 1:  # what breaks lies a hundred times as far off as what differs
                axes.set_yscale("symlog", linthresh=0.02)
            axes.set_xlabel("alpha in units of L")
            axes.set_title(title, fontsize=9.5, fontweight="bold")
        if len(lines) > FEW:
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
        else:
            panels[0].legend(loc="best", frameon=False)
        figure.savefig(into, dpi=120, metadata={"Software": None})
    return into


Panel = tuple[str, Callable[[AlphaLine, AlphaRow], Point | None], bool]


def _panels(lines: Sequence[AlphaLine], *, relative: bool) -> list[Panel]:
    """Those for which there is a point."""
    panels: list[Panel] = [
        ("Max LR", lambda line, row: _max_lr(row), True),
        ("loss above that at alpha = L, nats a token", _relative, False)
        if relative
        else ("loss at best LR, nats a token", lambda line, row: _loss(row), False),
        ("branch / stream after training", lambda line, row: _strength(row), True),
    ]
    return [panel for panel in panels if any(panel[1](line, row) for line in lines for row in line.rows)]


def _line(
    axes: Axes, line: AlphaLine, points: Callable[[AlphaLine, AlphaRow], Point | None], name: str, index: int
) -> None:
    found = [(row.units, point) for row in line.rows if (point := points(line, row)) is not None]
    colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
    axes.errorbar(
        [units for units, _ in found],
        [value for _, (value, _, _) in found],
        yerr=[[value - low for _, (value, low, _) in found], [high - value for _, (value, _, high) in found]],
        color=colour,
        marker=mark,
        markersize=4.5,
        linewidth=1.2,
        linestyle="--" if index >= len(COLOURS) else "-",
        elinewidth=0.8,
        capsize=2,
        label=name.replace("$", r"\$"),
    )


def _max_lr(row: AlphaRow) -> Point | None:
    if row.max_lr is None or row.max_lr.median is None:
        return None
    middle, ends = row.max_lr.median, row.max_lr.interval
    return (middle, middle, middle) if ends is None else (middle, min(ends.low, middle), max(ends.high, middle))


def _loss(row: AlphaRow) -> Point | None:
    return _point(loss(row))


def _relative(line: AlphaLine, row: AlphaRow) -> Point | None:
    reference = min((one for one in line.rows if one.losses), key=lambda one: abs(one.units - 1), default=None)
    value = None if reference is None else difference(row, reference)
    return None if value is None else (value.value, value.value, value.value)


def _point(value: Mean | None) -> Point | None:
    if value is None:
        return None
    low, high = (value.value if end is None else end for end in (value.low, value.high))
    return value.value, low, high


def _strength(row: AlphaRow) -> Point | None:
    if row.flow is None or row.flow.moments[-1].step == 0:
        return None
    value = branch_to_stream(row.flow.moments[-1])
    return value, value, value
