"""The flow of activations and gradients through depth: a column a moment, a row a measure, a line a trial.

Attention and FFN differ by more than blocks do: where that would draw a saw, a block has one value for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.figures.curves import STYLE
from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import INIT, Moment, Probed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's, in the order of the trials
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
COLUMNS = 3  # at most: the first, the middle and the last moment

BEYOND = 2  # the first sub-layer after block 0, before whose norm gradients are another matter

Line = Callable[[Probed, Moment], Sequence[float]]


class Row(NamedTuple):
    """A measure; `start` and `stride` are in sub-layers, rows that an untrained model leaves empty are `trained`."""

    label: str
    line: Line
    predicted: Line | None = None
    scale: str = "log"
    start: int = 0
    stride: int = 1
    trained: bool = False


def draw(probed: Sequence[Probed], into: Path) -> list[Path]:
    """Draws `flow-bBLOCKS-wWIDTH.png` and `.svg` for each depth and width; the same numbers give the same bytes."""
    shapes = sorted({(one.planned.trial.blocks, one.planned.trial.model.width) for one in probed})
    written = []
    for blocks, width in shapes:
        alike = [one for one in probed if (one.planned.trial.blocks, one.planned.trial.model.width) == (blocks, width)]
        written += _write(alike, into / f"flow-b{blocks}-w{width}", f"{2 * blocks} sub-layers, width {width}")
    return written


def _write(alike: Sequence[Probed], stem: Path, title: str) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    steps = _columns(sorted({step for one in alike for step in one.flow.steps}))
    rows = [row for row in ROWS if steps[-1] > 0 or not row.trained]
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(max(6.5, 1.6 + 3.2 * len(steps)), 1.7 * len(rows) + 1.4), layout="constrained")
        grid = figure.subplots(len(rows), len(steps), sharex=True, sharey="row", squeeze=False)
        for panels, row in zip(grid, rows, strict=True):
            for axes, step in zip(panels, steps, strict=True):
                _panel(axes, alike, step, row)
            panels[0].set_ylabel(row.label)
        for axes, step in zip(grid[0], steps, strict=True):
            axes.set_title(INIT if step == 0 else f"after {step} updates", fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel("sub-layer")
        handles = grid[0][0].get_lines()[: len(alike)]
        labels = [one.planned.name for one in alike]
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
        figure.suptitle(f"{title} \ndashed: predicted from the measured branch scale", fontsize=10)
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        figure.savefig(paths[0], dpi=110, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _columns(steps: Sequence[int]) -> list[int]:
    if len(steps) <= COLUMNS:
        return list(steps)
    return [steps[0], steps[len(steps) // 2], steps[-1]]


def _panel(axes: Axes, alike: Sequence[Probed], step: int, row: Row) -> None:
    known: list[float] = []
    for number, one in enumerate(alike):
        moment = next((moment for moment in one.flow.moments if moment.step == step), None)
        style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "linewidth": 1.1}
        y = list(row.line(one, moment)) if moment else []
        axes.plot(_across(row, y), y, **style)  # the first line of each trial, which the legend shows
        if moment and row.predicted:
            dashed = list(row.predicted(one, moment))
            axes.plot(_across(row, dashed), dashed, **{**style, "linewidth": 0.9}, linestyle="--")
        known += [value for value in y if math.isfinite(value) and value > 0]
    if row.scale == "log" and known:
        axes.set_yscale("log")


def _across(row: Row, y: Sequence[float]) -> list[float]:
    middle = (row.stride - 1) / 2
    return [row.start + row.stride * at + middle for at in range(len(y))]


def _by_block(values: Sequence[float]) -> list[float]:
    """Root mean square over a block's two sub-layers."""
    return [math.sqrt((one**2 + other**2) / 2) for one, other in zip(values[::2], values[1::2], strict=True)]


def _ratio(one: Probed, moment: Moment) -> list[float]:
    pairs = zip(moment.values[names.BRANCH_RMS], moment.values[names.SKIP_RMS], strict=True)
    return _by_block([branch / skip if skip > 0 else math.nan for branch, skip in pairs])


def _skip(one: Probed, moment: Moment) -> Sequence[float]:
    return moment.values[names.SKIP_PRODUCT][BEYOND:]


def _predicted(one: Probed, moment: Moment) -> list[float]:
    from analysis.skip_product import skip_product

    eps, sublayers = one.planned.trial.model.norm_eps, len(one.flow.normed)
    return [skip_product(one.flow, moment, eps, first).predicted for first in range(BEYOND, sublayers)]


def _sublayer(measure: str) -> Line:
    return lambda one, moment: moment.values[measure]


def _part(measure: str) -> Line:
    def line(one: Probed, moment: Moment) -> list[float]:
        inner = [at for at, name in enumerate(one.flow.parts) if name.startswith("block ")]
        return _by_block([moment.values[measure][at] for at in inner])

    return line


ROWS = (
    Row("stream rms", _sublayer(names.STREAM_RMS)),
    Row("branch / stream", _ratio, stride=2),
    Row("skip-only gradient\nbeyond block 0", _skip, _predicted, start=BEYOND),
    Row("gradient\nof state", _sublayer(names.STATE_GRAD)),
    Row("gradient\nof weights", _part(names.WEIGHT_GRAD), stride=2),
    Row("largest gain", _sublayer(names.LARGEST_GAIN), scale="linear", trained=True),
    Row("weight drift", _part(names.WEIGHT_DRIFT), scale="linear", stride=2, trained=True),
    Row("share of\nv < eps", _part(names.TINY_MOMENTS), scale="linear", stride=2, trained=True),
)
