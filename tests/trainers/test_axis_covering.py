"""Axes x architectures: every pair of values builds, trains and goes on from a checkpoint."""

import itertools
import math
from typing import Any

import pytest

from keel_lab.settings import TrainSettings
from tests.trainers.job_cases import SHAPE, Fit
from tests.trainers.schemes import options
from trainers import architectures
from trainers.catalogue import CATALOGUE

AXES: dict[str, list[Any]] = {
    "kv_heads": [4, 2, 1],
    "ffn": ["swiglu", "gelu", "moe"],
    "qk_norm": [False, True],
    "tied_head": [False, True],
    "init_std": [0.02, "match_width", "depth_scaled"],
    "top_k": [2, 1],
    "rope_theta": [10_000.0, 100.0],
    "norm_eps": [1e-5, 1e-3],
}


def covering(axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Rows in which every pair of values of two axes stands, each with as many new ones as a greedy choice finds."""
    names = list(axes)
    missing = {
        ((one, a), (two, b)) for one, two in itertools.combinations(names, 2) for a in axes[one] for b in axes[two]
    }
    rows = []
    while missing:
        (one, a), (two, b) = min(missing, key=repr)
        row = {one: a, two: b}
        for name in names:
            row.setdefault(
                name,
                max(axes[name], key=lambda value, name=name: len(missing & pairs({**row, name: value}, names))),
            )
        rows.append({name: row[name] for name in names})
        missing -= pairs(row, names)
    return rows


def pairs(row: dict[str, Any], names: list[str]) -> set[Any]:
    known = [(name, row[name]) for name in names if name in row]
    return set(itertools.combinations(known, 2))


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in architectures.names()),
    ("keel", {"learnable_alpha": True, "alpha_profile": "rising", "ffn_factor": 2, "exemption": False}),
    ("keel", {"inner_norm": False, "final_norm": True, "first_ffn_norm": False}),
    ("deepnorm", {"beta": "keel_paper"}),
    ("post_ln", {"final_norm": True}),
]
ROWS = covering(
    {
        "variant": list(range(len(VARIANTS))),
        **AXES,
        "precision": ["fp32", "bf16"],
    }
)


def test_the_rows_cover_every_pair() -> None:
    names = list(ROWS[0])
    seen = set().union(*(pairs(row, names) for row in ROWS))
    values = {name: {row[name] for row in ROWS} for name in names}
    assert len(values["variant"]) == len(VARIANTS)
    for one, two in itertools.combinations(names, 2):
        assert {((one, a), (two, b)) for a in values[one] for b in values[two]} <= seen


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(str(value) for value in row.values()))
def test_every_pair_builds_trains_and_goes_on_from_a_checkpoint(fit: Fit, row: dict[str, Any]) -> None:
    name, changes = VARIANTS[row["variant"]]
    shape = SHAPE.model_copy(update={"heads": 4, **{key: row[key] for key in AXES}})
    report = fit(
        10,
        stops=(6,),
        architecture=name,
        options=options(name, 1, **changes),
        model=shape,
        train=TrainSettings(batch_size=4, precision=row["precision"]),
    )
    steps = report.curve.steps
    assert [step.step for step in steps] == list(range(1, 11))
    assert all(math.isfinite(step.loss) and math.isfinite(step.grad_norm) for step in steps)
    assert steps[0].grad_norm > 0
    assert steps[-1].loss < steps[0].loss
    stored = sum(
        value.numel() for key, value in report.weights().items() if key != "model.head" or not row["tied_head"]
    )
    chosen = options(name, 1, **changes)
    assert stored == CATALOGUE.parameters(name, shape, 1, chosen, vocab=256)
