"""CASES.md 7: a best LR on the grid's edge is a bound, and the report says to extend the grid."""

import pytest

from analysis.report import build
from keel_lab.settings import GridSchedule

NOTE = "pre_ln, 16 blocks: best LR"


def grid(lab, losses, diverged=()):
    """Validation losses by (LR, weight decay)."""
    for (lr, decay), loss in losses.items():
        schedule = GridSchedule(lr=lr, steps=300)
        axes = (("lr", lr), ("train.weight_decay", decay))
        planned = lab.plan("edge", "pre_ln", 16, 0, axes=axes, options={"decay": decay}, schedule=schedule)
        lost = (lr, decay) in diverged
        verdict = lab.diverged(planned, 100) if lost else lab.healthy(planned)
        lab.finish(planned, verdict, metrics={"val_loss": loss})
    lab.save("edge")
    return " ".join(build(["edge"], lab.root, "md").split())


@pytest.mark.parametrize(
    ("best", "said"),
    [
        (0.05, f"{NOTE} >= 0.05: it is the largest tried; extend the grid"),
        (0.01, None),
        (0.002, f"{NOTE} <= 0.002: it is the smallest tried; extend the grid"),
    ],
)
def test_a_best_lr_on_the_edge_is_a_bound(lab, best, said):
    losses = {(lr, decay): (2.0 if lr == best else 3.0) + decay for lr in (0.002, 0.01, 0.05) for decay in (0.1, 0.2)}
    text = grid(lab, losses)
    assert (NOTE in text) == (said is not None)
    assert said is None or said in text


def test_above_a_divergence_there_is_nothing_to_extend(lab):
    losses = {(lr, 0.1): loss for lr, loss in ((0.002, 3.0), (0.01, 2.0), (0.05, 1.0))}
    assert NOTE not in grid(lab, losses, diverged=[(0.05, 0.1)])


def test_one_lr_has_no_edge(lab):
    assert NOTE not in grid(lab, {(0.01, 0.1): 2.0, (0.01, 0.2): 3.0})


def test_a_run_that_had_too_few_steps_to_learn_keeps_its_loss_and_is_not_called_diverged(lab):
    schedule = GridSchedule(lr=1e-3, steps=300)
    planned = lab.plan("short", "pre_ln", 16, 0, axes=(("lr", 1e-3),), schedule=schedule)
    lab.finish(planned, lab.stagnant(), metrics={"val_loss": 3.38})
    lab.save("short")
    text = build(["short"], lab.root)
    assert "3.3800, not learned 1/1" in text
    assert "diverged 1/1" not in text
    assert "not learned: the loss never got clearly below the unigram level H1" in text
