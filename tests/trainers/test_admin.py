"""Admin's profiling: one batch, one sub-layer after another, kept with the weights."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from keel_lab.errors import UsageError
from keel_lab.settings import TrainSettings
from tests.trainers.job_cases import SHAPE, Fit, same, trial
from tests.trainers.schemes import built
from trainers.batches import first_update
from trainers.data.shard import Shard
from trainers.model import Transformer, build
from trainers.residual import ResidualStack

POST_LN = {"architecture": "post_ln", "options": {"final_norm": False}}
STRONG = SHAPE.model_copy(update={"init_std": "match_width"})


def omegas(model: Transformer) -> torch.Tensor:
    return torch.stack([step.skip.factor.detach() for step in model.stack.steps])


def test_omega_is_what_keeps_the_branches_share(data: Path) -> None:
    """omega_0 = 1, then omega^2 grows by the variance of each branch, read on the stream as already set."""
    admin = trial(data, architecture="admin", blocks=3, model=STRONG)
    model, batch = build(admin), first_update(admin, Shard.open(data))
    assert bool((omegas(model) == 1).all())
    model.calibrate(batch)
    found = omegas(model)
    assert bool((found == found[:, :1]).all())
    assert bool((found[0] == 1).all())
    outputs: list[torch.Tensor] = []
    for branch in model.stack.branches:
        branch.register_forward_hook(lambda module, inputs, out: outputs.append(out))
    states: list[torch.Tensor] = []
    with torch.no_grad():
        model(batch, states)
    for index in range(5):
        wanted = (found[index] * states[index]).var(correction=0) + outputs[index].var(correction=0)
        assert float(found[index + 1, 0]) == pytest.approx(math.sqrt(float(wanted)), rel=1e-5)
    assert float(found[1, 0]) < 0.9  # the embedding's scale: not Post-LN
    assert bool((found[1:-1] < found[2:]).all())
    model.calibrate(batch)
    assert torch.equal(omegas(model), found)  # however often it is done
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_profiling_sees_the_first_update_whatever_its_micro_batches(fit: Fit) -> None:
    train = [TrainSettings(batch_size=4, accumulate=parts) for parts in (1, 2)]
    schedule = {"model": STRONG, "architecture": "admin"}
    one, two = (fit(1, train=settings, **schedule).curve.steps[0] for settings in train)
    assert one.loss == pytest.approx(two.loss, rel=1e-6)
    assert one.loss != fit(1, train=train[0], **(schedule | POST_LN)).curve.steps[0].loss


def test_a_resumed_run_takes_omega_from_its_checkpoint(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = {"model": STRONG, "architecture": "admin", "blocks": 2}
    whole = fit(8, **admin)
    half = fit(4, **admin)
    trained = {key: value for key, value in half.weights().items() if key.endswith("skip.factor")}
    assert len(trained) == 4
    assert all(len(set(value.tolist())) > 1 for value in trained.values())  # a vector: its entries have moved apart
    calls: list[int] = []
    calibrate = Transformer.calibrate

    def counted(self: Transformer, tokens: torch.Tensor) -> None:
        calls.append(1)
        calibrate(self, tokens)

    monkeypatch.setattr(Transformer, "calibrate", counted)
    parts = fit(8, stops=(4,), **admin)
    assert len(calls) == 1
    assert parts.curve.to_parquet() == whole.curve.to_parquet()
    assert same(parts.weights(), whole.weights())


class Overflowing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1e30 * x


def test_an_init_that_overflows_is_refused() -> None:
    stack = ResidualStack(built("admin", 1), [Overflowing(), nn.Identity()], 4, 1e-5)
    with torch.no_grad(), pytest.raises(UsageError, match="init_std: at sub-layer 1, profiling gives omega = inf"):
        built("admin", 1).calibrate(stack, torch.randn(3, 4))  # type: ignore[misc]


def test_other_architectures_profile_nothing() -> None:
    assert built("post_ln", 2).calibrate is None
