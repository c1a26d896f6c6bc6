"""The flow of activations and gradients through depth: a column a moment, a row a measure, a line a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures.curves import STYLE
from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import INIT, Flow, Moment, Probed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's, in the order of the trials
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
COLUMNS = 3  # at most: the first, the middle and the last moment

Line = Callable[[Probed, Moment], Sequence[float]]


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
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(1.6 + 3.4 * len(steps), 1.9 * len(ROWS) + 1.2), layout="constrained")
        grid = figure.subplots(len(ROWS), len(steps), sharex=True, sharey="row", squeeze=False)
        for panels, (label, line, predicted, scale) in zip(grid, ROWS, strict=True):
            for axes, step in zip(panels, steps, strict=True):
                _panel(axes, alike, step, line, predicted, scale)
            panels[0].set_ylabel(label)
        for axes, step in zip(grid[0], steps, strict=True):
            axes.set_title(INIT if step == 0 else f"after {step} updates", fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel("sub-layer")
        handles = grid[0][0].get_lines()[: len(alike)]
        labels = [one.planned.name for one in alike]
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(alike)), fontsize=8)
        figure.suptitle(f"{title} (dashed: predicted from the measured branch scale)", fontsize=10)
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


def _panel(axes: Axes, alike: Sequence[Probed], step: int, line: Line, predicted: Line | None, scale: str) -> None:
    known: list[float] = []
    for number, one in enumerate(alike):
        moment = next((moment for moment in one.flow.moments if moment.step == step), None)
        style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "linewidth": 1.1}
        y = list(line(one, moment)) if moment else []
        axes.plot(range(len(y)), y, **style)  # the first line of each trial, which the legend shows
        if moment and predicted:
            dashed = list(predicted(one, moment))
            axes.plot(range(len(dashed)), dashed, **{**style, "linewidth": 0.9}, linestyle="--")
        known += [value for value in y if math.isfinite(value) and value > 0]
    if scale == "log" and known:
        axes.set_yscale("log")


def _ratio(one: Probed, moment: Moment) -> list[float]:
    pairs = zip(moment.values[names.BRANCH_RMS], moment.values[names.SKIP_RMS], strict=True)
    return [branch / skip if skip > 0 else math.nan for branch, skip in pairs]


def _predicted(one: Probed, moment: Moment) -> list[float]:
    from analysis.skip_product import skip_product

    eps, sublayers = one.planned.trial.model.norm_eps, len(one.flow.normed)
    return [skip_product(one.flow, moment, eps, first).predicted for first in range(sublayers)]


def _sublayer(measure: str) -> Line:
    return lambda one, moment: moment.values[measure]


def _part(measure: str) -> Line:
    def line(one: Probed, moment: Moment) -> list[float]:
        return [value for at, value in enumerate(moment.values[measure]) if _inner(one.flow, at)]

    return line


def _inner(flow: Flow, at: int) -> bool:
    return flow.parts[at].startswith("block ")


ROWS: tuple[tuple[str, Line, Line | None, str], ...] = (
    ("stream rms", _sublayer(names.STREAM_RMS), None, "log"),
    ("branch / stream", _ratio, None, "log"),
    ("skip-only gradient", _sublayer(names.SKIP_PRODUCT), _predicted, "log"),
    ("gradient of state", _sublayer(names.STATE_GRAD), None, "log"),
    ("gradient of weights", _part(names.WEIGHT_GRAD), None, "log"),
    ("largest gain", _sublayer(names.LARGEST_GAIN), None, "linear"),
    ("weight drift", _part(names.WEIGHT_DRIFT), None, "linear"),
    ("share of v < eps", _part(names.TINY_MOMENTS), None, "linear"),
)
