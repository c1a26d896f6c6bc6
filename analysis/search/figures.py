"""A search in one picture: its history, what mattered, its front, and loss over alpha and LR with what diverged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures.curves import STYLE
from analysis.search import places
from analysis.search.boundary import Boundary, boundary
from analysis.search.findings import Measured, Search
from keel_lab.spec.search import Objective, Parameter
from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#888888"
Panel = Callable[["Axes", Search], None]


def search_figures(searches: Sequence[Search], into: Path) -> list[Path]:
    """Draws each search of a sweep that has two complete points.

    Returns:
        `search-NAME.png` and `.svg`, numbered from the second search on. The same results give the same bytes.
    """
    drawn = [search for search in searches if search.count(State.COMPLETE) > 1]
    written = []
    for number, search in enumerate(drawn, start=1):
        into.mkdir(parents=True, exist_ok=True)
        stem = into / (f"search-{search.sweep.stored.name}" + (f"-{number}" if number > 1 else ""))
        written += _write(search, stem)
    return written


def _write(search: Search, stem: Path) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels: list[Panel] = [_history]
    panels += [_map] if len(places.map_axes(search)) == 2 else []
    panels += [_front] if len(search.objectives) > 1 else []
    panels += [_shares] if search.importance else []
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(1.0 + 4.4 * len(panels), 3.8), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False).tolist()[0], panels, strict=True):
            panel(axes, search)
        figure.suptitle(f"{search.sweep.stored.name}: {search.name}", fontsize=10, fontweight="bold")
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
        figure.savefig(paths[0], dpi=120, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _history(axes: Axes, search: Search) -> None:
    """Values in the order of asking, the best so far as a line, and the best as measured again."""
    objective = search.objectives[0]
    complete = [point for point in search.points if point.state is State.COMPLETE and not point.constraint]
    lost = [point for point in search.points if point.state is State.PRUNED or point.constraint]
    _scatter(axes, [point.number for point in complete], [_value(point) for point in complete], BLUE, "o", "found")
    better = min if objective.direction == "minimize" else max
    best = [better(_value(one) for one in complete[: place + 1]) for place in range(len(complete))]
    axes.step([point.number for point in complete], best, where="post", color=BLUE, linewidth=1.0, label="best so far")
    for point in lost:
        axes.plot([point.number], [0.97], "x", color=RED, markersize=5, transform=axes.get_xaxis_transform())
    for place, one in enumerate(search.best):
        found = interval_of(one.again.get(objective.name))
        if found is not None:
            middle, low, high = found
            axes.errorbar(
                [one.point.number],
                [middle],
                yerr=[[middle - low], [high - middle]],
                fmt="D",
                color=GREEN,
                markersize=4,
                capsize=3,
                label="" if place else "measured again, 90% interval",
            )
    if objective.name == "max_lr":
        axes.set_yscale("log")
    axes.set_xlabel("point, in the order of asking" + (" (x: diverged or pruned)" if lost else ""))
    axes.set_ylabel(_axis(objective))
    axes.margins(y=0.12)
    axes.legend(loc="best", frameon=False, fontsize=7.5)


def _map(axes: Axes, search: Search) -> None:
    """The first objective over two parameters, interpolated between points; and where runs diverge."""
    across, up = places.map_axes(search)
    objective = search.objectives[0]
    complete = [point for point in search.points if point.state is State.COMPLETE and not point.constraint]
    lost = [point for point in search.points if point.facts.get("diverged")]
    x, y = [places.place(one, across) for one in complete], [places.place(one, up) for one in complete]
    values = [_value(one) for one in complete]
    if places.spread(x, y):
        filled = axes.tricontourf(x, y, values, levels=12, cmap="viridis_r")
        axes.figure.colorbar(filled, ax=axes, label=_axis(objective), pad=0.02)
    _scatter(axes, x, y, "black", "o", "points", size=8)
    if lost:
        _scatter(
            axes,
            [places.place(one, across) for one in lost],
            [places.place(one, up) for one in lost],
            RED,
            "x",
            "diverged",
        )
    kept = [one for one in search.points if one.state is State.COMPLETE and not one.facts.get("diverged")]
    drawn = boundary(
        [(places.place(one, across), places.place(one, up)) for one in kept],
        [(places.place(one, across), places.place(one, up)) for one in lost],
    )
    if drawn is not None:
        _draw_boundary(axes, drawn)
    _ramp_limit(axes, search, across, up)
    for best in search.best[:1]:
        axes.plot(
            [places.place(best.point, across)],
            [places.place(best.point, up)],
            "*",
            color="white",
            markeredgecolor="black",
            markersize=12,
        )
    axes.set_xlabel(places.label(across))
    axes.set_ylabel(places.label(up))
    axes.legend(loc="best", fontsize=7.5)


def _ramp_limit(axes: Axes, search: Search, across: Parameter, up: Parameter) -> None:
    """Where LR is across and Max LR an objective: the Max LR that each point's ramp measured, from below."""
    names = [one.name for one in search.objectives]
    if across.key != "schedule.lr" or "max_lr" not in names:
        return
    measured = [
        (math.log10(point.told[names.index("max_lr")]), places.place(point, up))
        for point in search.points
        if point.told is not None and not point.constraint and not point.facts.get("censored")
    ]
    if measured:
        x, y = zip(*sorted(measured, key=lambda one: one[1]), strict=True)
        axes.plot(x, y, color=RED, linewidth=1.0, linestyle="--", marker=".", markersize=4, label="Max LR of the ramp")


def _draw_boundary(axes: Axes, found: Boundary) -> None:
    axes.contour(found.x, found.y, found.probability, levels=[0.5], colors=[RED], linewidths=1.5)
    axes.plot([], [], color=RED, linewidth=1.5, label="half of the runs diverge")


def _front(axes: Axes, search: Search) -> None:
    """The first two objectives of every point; the front, and its points as measured again."""
    first, second = search.objectives[:2]
    complete = [point for point in search.points if point.told is not None and not point.constraint]
    told = [point.told for point in complete if point.told is not None]
    _scatter(axes, [one[0] for one in told], [one[1] for one in told], BLUE, "o", "found")
    censored = [point.told for point in complete if point.told is not None and point.facts.get("censored")]
    if censored:
        _scatter(axes, [one[0] for one in censored], [one[1] for one in censored], RED, "+", "censored: at least this")
    front = [best.point.told for best in search.best if best.point.told is not None]
    axes.plot([one[0] for one in front], [one[1] for one in front], color=BLUE, linewidth=1.0, label="front, as found")
    for place, best in enumerate(one for one in search.best if one.again):
        x, y = interval_of(best.again.get(first.name)), interval_of(best.again.get(second.name))
        if x is not None and y is not None:
            axes.errorbar(
                [x[0]],
                [y[0]],
                xerr=[[x[0] - x[1]], [x[2] - x[0]]],
                yerr=[[y[0] - y[1]], [y[2] - y[0]]],
                fmt="D",
                color=GREEN,
                markersize=4,
                capsize=2,
                label="" if place else "measured again, 90% interval",
            )
    axes.set_xlabel(_axis(first))
    axes.set_ylabel(_axis(second))
    for name, scale in ((first.name, axes.set_xscale), (second.name, axes.set_yscale)):
        if name == "max_lr":
            scale("log")
    axes.legend(loc="best", frameon=False, fontsize=7.5)


def _shares(axes: Axes, search: Search) -> None:
    """Importance of the parameters, a bar an objective."""
    names = list(next(iter(search.importance.values())))[::-1]
    height = 0.8 / len(search.importance)
    for place, (objective, shares) in enumerate(search.importance.items()):
        axes.barh(
            [row + height * place for row in range(len(names))],
            [shares.get(name, 0.0) for name in names],
            height=height,
            color=(BLUE, GREEN, RED, GREY)[place % 4],
            label=objective,
        )
    axes.set_yticks([row + height * (len(search.importance) - 1) / 2 for row in range(len(names))], names)
    axes.set_xlabel("importance (PED-ANOVA)")
    axes.legend(loc="best", frameon=False, fontsize=7.5)


def interval_of(measured: Measured | None) -> tuple[float, float, float] | None:
    """Middle, low and high of what was measured again; None if there is no number."""
    if measured is None:
        return None
    if measured.max_lr is not None:
        one = measured.max_lr
        if one.median is None:
            return None
        ends = (one.median, one.median) if one.interval is None else (one.interval.low, one.interval.high)
        return one.median, min(ends[0], one.median), max(ends[1], one.median)
    found = measured.mean
    if found is None:
        return None
    return (
        found.value,
        found.value if found.low is None else found.low,
        found.value if found.high is None else found.high,
    )


def _axis(objective: Objective) -> str:
    units = {"val_loss": "validation loss, nats a token", "final_loss": "final loss, nats a token", "max_lr": "Max LR"}
    return units.get(objective.name, objective.name.replace("_", " "))


def _value(point: Point) -> float:
    assert point.told is not None
    return point.told[0]


def _scatter(
    axes: Axes, x: Sequence[Any], y: Sequence[float], colour: str, mark: str, name: str, size: int = 16
) -> None:
    axes.scatter(x, y, s=size, color=colour, marker=mark, label=name, zorder=3)
