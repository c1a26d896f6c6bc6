"""Which points of a curve a chart gets: some hundred, at the times they happened; the whole curve is an artifact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate

from keel_lab.curve import Curve, Step
from keel_lab.trial import Trial

POINTS = 200  # a metric; a value costs MLflow 300 bytes and 0.1 ms of CPU, and the whole curve is an artifact anyway
FOLDERS = {"grad_norm": "diag"}  # of what a step tells; else train
ONCE = ("final/", "val/", "cost/")  # folders of what is known at a run's end: one value each, at step 0


def stride(trial: Trial) -> int:
    """Every how many steps a point is taken, live or later."""
    return max(1, math.ceil(trial.schedule.steps / POINTS))


def paired_loss(step: Step, entropy: float | None) -> float:
    """The paired loss loss - (unigram_loss - H1) in nats (DESIGN section 6, b = 1); NaN where a part is unknown."""
    return math.nan if entropy is None else step.loss - (step.unigram_loss - entropy)


def step_values(step: Step, entropy: float | None) -> dict[str, float]:
    """What is drawn of a step, as far as it is finite."""
    return chart_values(
        {
            "loss": step.loss,
            "paired_loss": paired_loss(step, entropy),
            "lr": step.lr,
            "grad_norm": step.grad_norm,
        }
    )


def chart_values(values: Mapping[str, float]) -> dict[str, float]:
    """Names in folders, finite values only, and with the LR its logarithm, because the charts' axes are linear."""
    named = {name if "/" in name else f"{FOLDERS.get(name, 'train')}/{name}": value for name, value in values.items()}
    if (lr := named.get("train/lr", 0.0)) > 0:
        named.setdefault("train/log10_lr", math.log10(lr))
    return {name: value for name, value in named.items() if math.isfinite(value)}


def thinned(curve: Curve, every: int, keep: Iterable[int | None]) -> list[int]:
    """Indices of the points to draw: each `every` steps, the last one, and the steps in `keep` (an onset)."""
    wanted = set(keep)
    last = len(curve) - 1
    return [i for i, step in enumerate(curve) if i == last or step.step % every == 0 or step.step in wanted]


def times(curve: Curve, start: int, end: int) -> list[int]:
    """Unix milliseconds of each step: between the run's start and end, in proportion to the seconds the steps took.

    The same stored curve gives the same times, so that delivering it again adds nothing.
    """
    known = [value for value in curve.seconds if math.isfinite(value) and value >= 0]
    usual = sum(known) / len(known) if known else 1.0
    spent = list(accumulate(value if math.isfinite(value) and value >= 0 else usual for value in curve.seconds))
    scale = (end - start) / spent[-1] if spent and spent[-1] > 0 else 0.0
    return [start + round(value * scale) for value in spent]
