"""One trial around its onset: the loss with all that the detector said, and below it the inside of the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import notation
from analysis.explanation import Explanation
from analysis.figures.curves import LEVEL, ONSET, PAIRED, RAW, STYLE
from keel_lab import diagnostics as names
from keel_lab.curve import Step
from keel_lab.diagnostics import Diagnostics

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEST, REFERENCE, ALARM = "#009e73", "#cc79a7", "#56b4e9"  # Okabe and Ito's
DEPTH = "cividis"  # shallow dark, deep bright; reads the same to the colour-blind and in grey
VISIBLE = 0.9  # of its range: the brightest are lost on white
CLIPPED_OVER = 20  # steps of the running fraction


def draw(explanation: Explanation, into: Path) -> list[Path]:
    """Draws the explanation; of a refused replay the loss alone.

    Returns:
        `explain.png` and `explain.svg` in the folder `into`. The same explanation gives the same bytes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    inside = explanation.diagnostics
    heights = [2.6] if inside is None else [2.6, 2.2, 0.7, 1.7, 1.7, 1.2, 1.7]
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(8.5, sum(heights) * 1.02 + 1.4), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0].tolist()
        _loss(panels[0], explanation)
        if inside is not None:
            _inside(figure, panels[1:], explanation, inside)
        for axes in panels[1:]:
            _mark_onset(axes, explanation)
        _frame(figure, panels, explanation)
        _settle(figure)
        paths = [into / f"explain.{kind}" for kind in ("png", "svg")]
        figure.savefig(paths[0], dpi=120, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _loss(axes: Axes, explanation: Explanation) -> None:
    steps, evidence = _steps(explanation), explanation.verdict.evidence
    x = [step.step for step in steps]
    h1 = explanation.result.data.get("unigram_entropy")
    main, label = [step.loss for step in steps], "loss"
    if h1 is not None and not any(math.isnan(step.unigram_loss) for step in steps):
        axes.plot(x, main, color=RAW, linewidth=0.8, label="loss")
        main, label = [step.loss - step.unigram_loss + h1 for step in steps], "paired loss"
    axes.plot(x, main, color=PAIRED, linewidth=1.0, label=label)
    levels = [(h1, LEVEL, "--", "unigram level H1")]
    levels += [(evidence.get("best_level"), BEST, "-.", "best level")]
    levels += [(evidence.get("reference"), REFERENCE, ":", "reference")]
    for level, color, dashes, words in levels:
        if level is not None:
            axes.axhline(level, color=color, linewidth=1.1, linestyle=dashes, label=words)
    _mark_onset(axes, explanation, label=True)
    _mark_alarm(axes, explanation)
    finite = sorted(value for value in main if math.isfinite(value))
    if finite:
        known = [level for level, *_ in levels if level is not None]
        low, high = min(finite[0], *known, finite[-1]), max(finite[-1 - len(finite) // 50], *known, finite[0])
        margin = 0.08 * max(high - low, 0.1)
        axes.set_ylim(low - margin, high + 5 * margin)  # room for the legend
    axes.set_ylabel("nats a token")
    axes.legend(loc="upper center", ncols=4, fontsize=8, borderaxespad=0.3, framealpha=0.85, edgecolor="none")


def _mark_onset(axes: Axes, explanation: Explanation, label: bool = False) -> None:
    """The onset lies between the last good and the first bad step."""
    bad, good = explanation.onset, explanation.verdict.last_good_step
    if bad is not None:
        words = f"onset, step {bad}" if label else None
        axes.axvspan(bad - 1 if good is None else good, bad, color=ONSET, alpha=0.5, linewidth=0)
        axes.axvline(bad, color=ONSET, linewidth=1.2, label=words)


def _mark_alarm(axes: Axes, explanation: Explanation) -> None:
    evidence, last = explanation.verdict.evidence, explanation.window.last
    beyond = []
    for name, key, dashes in (("alarm", "alarm_step", "--"), ("confirmed", "confirmed_step", ":")):
        at = evidence.get(key)
        if at is None:
            continue
        if at > last:
            beyond.append(f"{name} at step {at}")
        elif at >= explanation.window.first:
            axes.axvline(at, color=ALARM, linewidth=1.3, linestyle=dashes, label=f"{name}, step {at}")
    if beyond:
        axes.text(
            *(0.995, 0.03, f"{', '.join(beyond)} \N{RIGHTWARDS ARROW}"),
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize=8,
            color=LEVEL,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
        )


def _inside(figure: Figure, panels: list[Axes], explanation: Explanation, inside: Diagnostics) -> None:
    gradients, clipped, updates, attention, output, stream = panels
    _heat_map(figure, gradients, inside)
    _clipped(clipped, explanation)
    for axes, measure, words in (
        (updates, names.UPDATE_RATIO, "update-to-weight,\nlargest matrix"),
        (attention, names.ATTENTION_LOGIT, "attention logit,\nlargest"),
        (stream, names.STREAM_RMS, "stream rms after\nsub-layer"),
    ):
        _lines(axes, inside, measure)
        axes.set_ylabel(words)
    output.plot(inside.steps, [row[0] for row in inside.values[names.OUTPUT_LOGIT]], color=PAIRED, linewidth=1.0)
    output.set_ylabel("output logit,\nlargest")
    _depth_bar(figure, [updates, attention, output, stream], explanation.trial.blocks)


def _heat_map(figure: Figure, axes: Axes, inside: Diagnostics) -> None:
    """Gradient norm of each part over time; what is zero or not finite stays blank."""
    import numpy as np
    from matplotlib.colors import LogNorm

    grid = np.asarray(inside.values[names.GRAD_NORM], dtype=np.float64).T
    shown = np.ma.masked_where(~(np.isfinite(grid) & (grid > 0)), grid)
    places = inside.places[names.GRAD_NORM]
    low, high = np.percentile(shown.compressed(), [2, 99.8]) if shown.count() else (0.1, 1.0)
    edges = np.append(np.asarray(inside.steps) - 0.5, inside.steps[-1] + 0.5)
    colors = axes.pcolormesh(
        edges,
        np.arange(len(places) + 1) - 0.5,
        shown,
        norm=LogNorm(low, max(high, 1.001 * low)),
        cmap="cividis",
        rasterized=True,
    )
    kept = sorted({*range(0, len(places), max(1, math.ceil(len(places) / 8))), len(places) - 1})
    if len(kept) > 1 and kept[-1] - kept[-2] < len(places) / 12:
        del kept[-2]
    axes.set_yticks(kept, [places[at] for at in kept], fontsize=7)
    axes.set_ylim(len(places) - 0.5, -0.5)  # from the embedding down
    axes.grid(visible=False)
    axes.set_ylabel("part of the model")
    figure.colorbar(colors, ax=axes, pad=0.01, aspect=12, label="gradient norm,\nbefore clipping")


def _clipped(axes: Axes, explanation: Explanation) -> None:
    """The running fraction of clipped steps, which looks back beyond the window."""
    steps = _steps(explanation)
    flags = {step.step: step.clipped for step in explanation.curve}
    spans = [range(max(1, step.step - CLIPPED_OVER + 1), step.step + 1) for step in steps]
    fraction = [sum(flags[at] for at in span) / len(span) for span in spans]
    axes.fill_between([step.step for step in steps], fraction, color=RAW, edgecolor=LEVEL, linewidth=0.8, step="post")
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 1.0])
    axes.set_ylabel("clipped\nfraction")


def _lines(axes: Axes, inside: Diagnostics, measure: str) -> None:
    """A line a place, coloured by depth, on a log axis."""
    import numpy as np
    from matplotlib.collections import LineCollection

    grid = np.asarray(inside.values[measure], dtype=np.float64)
    colors = [_color(place, inside) for place in inside.places[measure]]
    grid = np.where(np.isfinite(grid) & (grid > 0), grid, np.nan)
    x = np.asarray(inside.steps, dtype=np.float64)
    lines = [np.column_stack((x, grid[:, column])) for column in range(grid.shape[1])]
    axes.add_collection(LineCollection(lines, colors=colors, linewidths=0.7, alpha=0.85))
    low, high = _limits(grid)
    axes.set_yscale("log" if high > 8 * low else "linear")
    axes.set_ylim(low, high)


def _limits(grid: npt.NDArray[np.float64]) -> tuple[float, float]:
    import numpy as np

    known = grid[np.isfinite(grid)]
    if not known.size:
        return 0.1, 1.0
    low, high = np.percentile(known, [0.5, 100])
    room = max((high / low) ** 0.06, 1.02)
    return float(low / room), float(high * room)


def _color(place: str, inside: Diagnostics) -> Any:
    import matplotlib as mpl

    sublayers = inside.places[names.STREAM_RMS]
    if place not in sublayers:
        return {"embedding": ALARM, "head": REFERENCE}.get(place, LEVEL)
    return mpl.colormaps[DEPTH](VISIBLE * sublayers.index(place) / max(1, len(sublayers) - 1))


def _depth_bar(figure: Figure, panels: list[Axes], blocks: int) -> None:
    import matplotlib as mpl
    import numpy as np
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    shown = ListedColormap(mpl.colormaps[DEPTH](np.linspace(0.0, VISIBLE, 256)))
    scale = ScalarMappable(Normalize(0, max(1, blocks - 1)), shown)
    figure.colorbar(scale, ax=panels, pad=0.01, aspect=40, label="block (embedding light blue, head pink)")


def _frame(figure: Figure, panels: list[Axes], explanation: Explanation) -> None:
    steps = _steps(explanation)
    panels[0].set_xlim(explanation.window.first - 0.5, explanation.window.last + 0.5)
    panels[-1].set_xlabel("step")
    figure.align_ylabels(panels)
    top = panels[0].secondary_xaxis("top")
    at = [round(tick) for tick in panels[0].get_xticks()]
    lrs = {step.step: step.lr for step in steps}
    shown = [step for step in at if step in lrs]
    top.set_xticks(shown, [notation.reading(lrs[step]) if lrs[step] else "0" for step in shown], fontsize=8)
    top.set_xlabel("learning rate", fontsize=8.5)
    top.grid(visible=False)  # of no height, and its clip path would get another name each time
    verdict = explanation.verdict
    mode = f" ({verdict.mode})" if verdict.mode else ""
    name = explanation.found.name.replace("$", r"\$")
    figure.suptitle(f"{name}: {verdict.status}{mode}", fontsize=10.5, fontweight="bold")


def _settle(figure: Figure) -> None:
    """Fixes the layout, whose solver differs in the last bits from one time to the next, which shows in SVG ids."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(part, 5) for part in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _steps(explanation: Explanation) -> list[Step]:
    window = explanation.window
    return [step for step in explanation.curve if window.first <= step.step <= window.last]
