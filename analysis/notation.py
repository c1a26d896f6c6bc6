"""How numbers are written: three significant digits for what was measured, every digit for what was set."""

from __future__ import annotations

from collections.abc import Callable

from analysis.intervals import Interval
from analysis.ratios import Ratio
from analysis.statistics import Estimate
from keel_lab.spec.label import label_text


def reading(value: float) -> str:
    """A measured LR with three significant digits: `2.51e-2`, `3.00e-4`, `0.105`."""
    rounded = f"{value:.2e}"
    if float(rounded) >= 0.1:
        return f"{value:#.3g}".rstrip(".")
    mantissa, _, exponent = rounded.partition("e")
    return f"{mantissa}e{int(exponent)}"


def bound(value: float) -> str:
    """A limit: as it was set if that takes three digits (`0.1`), else as a reading."""
    return label_text(value) if float(f"{value:.2e}") == value else reading(value)


def max_lr(estimate: Estimate) -> str:
    """The Max LR of a cell, or in words why there is none."""
    if estimate.median is None:
        words = {"not_learned": "not learned at this slope", "undecided": "undecided", "failed": "failed"}
        return words.get(estimate.kind, "not run")
    if estimate.kind == "measured":
        return reading(estimate.median)
    return f"{'> ' if estimate.kind == 'censored' else '< '}{bound(estimate.median)} ({_OPEN[estimate.kind]})"


_OPEN = {"censored": "censored", "below": "held"}  # why a median is a bound


def max_lr_interval(estimate: Estimate) -> str:
    """The Max LR with its interval, `1.26e-2 [1.00e-2, > 0.1]`; `(no interval)` where a number has none."""
    text = max_lr(estimate)
    if estimate.median is None or estimate.n == estimate.censored or estimate.n == estimate.below:
        return text  # words, or a bound that holds for every seed
    return f"{text.partition(' (')[0]} {_interval(estimate.interval, reading, bound)}"


def _interval(value: Interval | None, inside: Callable[[float], str], open_end: Callable[[float], str]) -> str:
    if value is None:
        return "(no interval)"
    low = f"< {open_end(value.low)}" if value.low_open else inside(value.low)
    high = f"> {open_end(value.high)}" if value.high_open else inside(value.high)
    return f"[{low}, {high}]"


def span(estimate: Estimate) -> str:
    """The range over seeds, `2.31e-2 .. > 0.1` if the largest is censored; `one seed` for a single reading."""
    if estimate.low is None or estimate.high is None:
        return "-"
    if estimate.n == 1:
        return "one seed"
    if estimate.censored == estimate.n and estimate.low == estimate.high:
        return f"all > {bound(estimate.high)}"
    low = f"< {bound(estimate.low)}" if estimate.below else reading(estimate.low)
    high = f"> {bound(estimate.high)}" if estimate.censored else reading(estimate.high)
    return f"{low} .. {high}"


def modes(estimate: Estimate) -> str:
    """The modes seen, counted when there is more than one seed: `collapse 2, irrecoverable 1`."""
    if not estimate.modes:
        return "-"
    if sum(count for _, count in estimate.modes) == estimate.planned == 1:
        return estimate.modes[0][0]
    return ", ".join(f"{mode} {count}" for mode, count in estimate.modes)


def seeds(estimate: Estimate) -> str:
    """How many seeds the median stands on: `5`, or `3 of 5`."""
    return str(estimate.n) if estimate.n == estimate.planned else f"{estimate.n} of {estimate.planned}"


def ratio(value: Ratio | None) -> str:
    """A ratio with three significant digits; `>` or `<` where one side is censored, `a .. b` if known within these."""
    if value is None:
        return "-"
    if value.kind == "within":
        return f"{digits(value.bounds.low)} .. {digits(value.bounds.high)}"
    return {"exact": "", "above": "> ", "below": "< "}[value.kind] + digits(value.value)


def ratio_interval(value: Ratio | None, n: int) -> str:
    """The ratio with its interval, `0.156 [0.131, 0.190]`, and the number of its pairs where that is not n."""
    if value is None or value.pairs is None:
        return ratio(value)
    text = f"{ratio(value)} {_interval(value.interval, digits, digits)}"
    pairs = "" if value.pairs == n else f" ({value.pairs} pair{'s' * (value.pairs > 1)})"
    return (text + pairs).replace(") (", ", ")


def digits(value: float) -> str:
    """Three significant digits, zeros kept: `0.150`, `1.00`."""
    return f"{value:#.3g}".rstrip(".")
