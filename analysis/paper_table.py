"""The paper's Table 1 as ratios to Pre-LN; its absolute LRs belong to its own ramp and models (paper/README.md)."""

from __future__ import annotations

import csv
import math
from functools import cache
from importlib.resources import files

from keel_lab.trial import Trial

_PLAIN = {
    "final_norm": False,
    "exemption": True,
    "first_ffn_norm": True,
    "fraction": 0.25,
    "inner_norm": True,
    "learnable_alpha": False,
    "alpha_profile": "flat",
    "ffn_factor": 1.0,
}


@cache
def ratios() -> dict[tuple[str, int], float]:
    """(architecture, blocks) -> Max LR over Pre-LN's at that depth, Table 1 of arXiv 2601.19895v1."""
    text = files("analysis").joinpath("paper/table1_max_lr.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    # the printed depth counts sub-layers: two a block
    lrs = {(row["architecture"], int(row["depth_as_printed"]) // 2): float(row["max_lr"]) for row in rows}
    return {(name, blocks): lr / lrs["pre_ln", blocks] for (name, blocks), lr in lrs.items()}


def ratio_for(trial: Trial) -> float | None:
    """The paper's ratio for a trial's architecture and depth; None where the paper measured no such model."""
    return ratios().get((trial.architecture, trial.blocks)) if _as_in_the_paper(trial) else None


def _as_in_the_paper(trial: Trial) -> bool:
    """Whether the architecture's options are those the paper compares: Keel with alpha = L, and so on."""
    options, sublayers = trial.options, trial.sublayers
    alpha = {"keel": float(sublayers), "deepnorm": sublayers**0.25}.get(trial.architecture)
    if alpha is not None and not math.isclose(float(options.get("alpha", alpha)), alpha):
        return False
    return all(options.get(name, usual) == usual for name, usual in _PLAIN.items())
