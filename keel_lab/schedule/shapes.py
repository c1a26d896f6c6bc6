"""One trial of each shape: what a trainer's `preflight` has to see of a sweep."""

from __future__ import annotations

from collections.abc import Iterable

from keel_lab.trial import Trial

_PARTS = ("trainer", "architecture", "options", "blocks", "model", "train")


def one_of_each_shape(trials: Iterable[Trial]) -> list[Trial]:
    """The first trial of each combination of trainer, architecture with its options, depth, model and optimizer."""
    shapes: dict[str, Trial] = {}
    for trial in trials:
        question = trial.question()
        shapes.setdefault(repr([question[part] for part in _PARTS]), trial)
    return list(shapes.values())
