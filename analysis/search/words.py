"""How points, values and parameters of a search are written; alpha in units of L."""

from __future__ import annotations

from analysis import notation
from analysis.means import Mean
from analysis.search.findings import ALPHA, Measured
from keel_lab.spec.label import label_text
from keel_lab.spec.search import Objective, Parameter
from keel_lab.store.points import Point


def parameter(point: Point, one: Parameter) -> str:
    """A parameter of a point as its trials have it: `3.162e-3`, or for alpha `0.500 L (L^0.667)`."""
    if one.name not in point.drawn:
        return "-"
    value = point.values[one.key]
    said = ",".join(map(label_text, value)) if isinstance(value, list | tuple) else label_text(value)
    if one.key != ALPHA:
        return said
    units = alpha_in_units(point)
    return said if units is None else f"{units:#.3g}".rstrip(".") + f" L ({said})"


def alpha_in_units(point: Point) -> float | None:
    """Alpha over L; None if its architecture has none."""
    trial = point.trials[0].trial
    alpha = trial.options.get("alpha")
    return None if alpha is None else float(alpha) / trial.sublayers


def found(point: Point, objective: Objective, number: int) -> str:
    """The value that a point was told, with what it stands for."""
    if point.told is None:
        return "-"
    value = point.told[number]
    if objective.name == "max_lr":
        return f"> {notation.bound(value)}" if point.facts.get("censored") else notation.reading(value)
    return number_text(value, objective)


def number_text(value: float, objective: Objective) -> str:
    """Losses with four decimals, tokens and FLOPs with three digits."""
    if objective.name in ("tokens_to_loss", "cost"):
        return f"{value:.3g}"
    return f"{value:.4f}"


def again(measured: Measured | None, objective: Objective) -> str:
    """The value with fresh seeds, its 90% interval and n; `-` if it was not measured again."""
    if measured is None:
        return "-"
    if measured.max_lr is not None:
        return f"{notation.max_lr_interval(measured.max_lr)} (n={measured.max_lr.n})"
    lost = f", {measured.lost} lost" if measured.lost else ""
    return f"{_mean(measured.mean, objective)}{lost}" if measured.mean else f"lost by {measured.lost} seeds"


def _mean(value: Mean, objective: Objective) -> str:
    text = number_text(value.value, objective)
    if value.low is None or value.high is None:
        return f"{text} (n={value.n}, no interval)"
    return f"{text} [{number_text(value.low, objective)}, {number_text(value.high, objective)}] (n={value.n})"
