"""How numbers are written: three significant digits for what was measured, every digit for what was set."""

from __future__ import annotations

from analysis.statistics import Estimate, Ratio
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
    if estimate.median is not None:
        return f"> {bound(estimate.median)} (censored)" if estimate.kind == "censored" else reading(estimate.median)
    words = {"not_learned": "not learned at this slope", "undecided": "undecided", "failed": "failed"}
    return words.get(estimate.kind, "not run")


def span(estimate: Estimate) -> str:
    """The range over seeds, `2.31e-2 .. > 0.1` if the largest is censored; `one seed` for a single reading."""
    if estimate.low is None or estimate.high is None:
        return "-"
    if estimate.n == 1:
        return "one seed"
    if estimate.censored == estimate.n and estimate.low == estimate.high:
        return f"all > {bound(estimate.high)}"
    high = f"> {bound(estimate.high)}" if estimate.censored else reading(estimate.high)
    return f"{reading(estimate.low)} .. {high}"


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
    """A ratio with three significant digits; `>` or `<` where one side is censored."""
    if value is None:
        return "-"
    sign = {"exact": "", "above": "> ", "below": "< "}[value.kind]
    return sign + f"{value.value:#.3g}".rstrip(".")
