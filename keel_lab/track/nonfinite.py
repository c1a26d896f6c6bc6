"""NaN and Inf as tags: MLflow's charts lose a run to them, and its database keeps Inf as 1.8e308.

Tag `nonfinite.loss` of value `59: inf, 60-62: nan` says at which steps the curve held what; `nonfinite.val_loss` of
value `nan` that a final metric was none. Finite points go to MLflow as metrics, so that both together are the curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from keel_lab.curve import Curve

PREFIX = "nonfinite."
LIMIT = 100  # spans in a tag; a curve with more is in the run's artifact, which holds every bit


def nonfinite_tags(curve: Curve, metrics: Mapping[str, float]) -> dict[str, str]:
    """The tags of a run; none if all was finite. A gradient norm of NaN is one that is not known, and no finding."""
    found = {
        "loss": spans((step.step, step.loss) for step in curve),
        "grad_norm": spans((step.step, step.grad_norm) for step in curve if math.isinf(step.grad_norm)),
        **{name: str(value) for name, value in metrics.items() if not math.isfinite(value)},
    }
    return {f"{PREFIX}{name}": text for name, text in found.items() if text}


def spans(values: Iterable[tuple[int, float]]) -> str:
    """Steps in ascending order with what they held, if it was not finite: `59: inf, 60-62: nan`."""
    found: list[tuple[int, int, str]] = []
    for step, value in values:
        if math.isfinite(value):
            continue
        first, last, word = found[-1] if found else (0, -1, "")
        if last == step - 1 and word == str(value):
            found[-1] = (first, step, word)
        else:
            found.append((step, step, str(value)))
    words = [f"{first}: {word}" if first == last else f"{first}-{last}: {word}" for first, last, word in found[:LIMIT]]
    return ", ".join([*words, f"and {len(found) - LIMIT} more spans, see curve.parquet"] if found[LIMIT:] else words)


def steps(text: str) -> dict[int, float]:
    """What `spans` wrote, by step.

    Raises:
        ValueError: if it was cut, or is something else.
    """
    found: dict[int, float] = {}
    for word in text.split(", "):
        where, separator, value = word.partition(": ")
        first, _, last = where.partition("-")
        if not separator:
            raise ValueError(f"not steps with what they held: {word!r}")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), float(value))
    return found
