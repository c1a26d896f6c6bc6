"""The paper's Table 1 as ratios to Pre-LN; its absolute LRs belong to its own ramp and models (paper/README.md)."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from keel_lab.trial import Trial


@cache
def ratios() -> dict[tuple[str, int], float]:
    """(architecture, blocks) -> Max LR over Pre-LN's at that depth, Table 1 of arXiv 2601.19895v1."""
    text = files("analysis").joinpath("paper/table1_max_lr.csv").read_text(encoding="utf-8")
    # the printed depth counts sub-layers: two a block
    lrs = {
        (row["architecture"], int(row["depth_as_printed"]) // 2): float(row["max_lr"])
        for row in csv.DictReader(text.splitlines())
    }
    return {(name, blocks): lr / lrs["pre_ln", blocks] for (name, blocks), lr in lrs.items()}


def ratio_for(trial: Trial) -> float | None:
    """The paper's ratio for a trial's architecture and depth; None where the paper measured no such model.

    Keel stands in the paper with alpha = L; under another alpha it is another model.
    """
    alpha = trial.options.get("alpha")
    if trial.architecture == "keel" and alpha is not None and alpha != trial.sublayers:
        return None
    return ratios().get((trial.architecture, trial.blocks))
