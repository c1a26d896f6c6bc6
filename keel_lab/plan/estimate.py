"""How long trials take, from what steps of their shape took before."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from keel_lab.trial import Trial

StepSeconds = Callable[[Trial], float | None]


def seconds(trial: Trial, step_seconds: StepSeconds) -> float | None:
    """Of the whole trial; None if no step of that kind was ever measured."""
    cost = step_seconds(trial)
    return None if cost is None else cost * trial.schedule.steps


def makespan(costs: Iterable[float], slots: int) -> float:
    """When the last of these ends, each started in order as soon as one of `slots` is free; seconds."""
    free = [0.0] * max(1, slots)
    for cost in costs:
        heapq.heapreplace(free, free[0] + cost)
    return max(free)
