"""Each optimizer and way of clipping: against a bare loop, and bit for bit across a stop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from keel_lab.learning_rate import lr_at
from keel_lab.settings import RampSchedule, TrainSettings
from tests.trainers.job_cases import RAMP, SHAPE, Fit, poison, same, trial
from trainers.batches import Updates
from trainers.data.shard import Shard
from trainers.model import Transformer, build

OPTIMIZERS = ["adamw", "sgd", "lion", "muon"]


def settings(**changes: Any) -> TrainSettings:
    return TrainSettings(**{"batch_size": 4, "weight_decay": 0.3, "clip_norm": "off", **changes})


class Sgd:
    """v <- mu v + g + wd p; p <- p - lr (g + wd p + mu v) with Nesterov, else p - lr v; v = g at first."""

    def __init__(self, momentum: float, nesterov: bool) -> None:
        self.momentum, self.nesterov = momentum, nesterov
        self.velocity: dict[str, Tensor] = {}

    def step(self, name: str, p: Tensor, g: Tensor, lr: float, decay: float) -> None:
        g = g + decay * p
        v = self.momentum * self.velocity[name] + g if name in self.velocity else g
        self.velocity[name] = v
        p -= lr * (g + self.momentum * v if self.nesterov else v)


class Lion:
    """Algorithm 2 of arXiv 2302.06675: p <- p - lr (sign(b1 m + (1 - b1) g) + wd p); m <- b2 m + (1 - b2) g."""

    def __init__(self, b1: float, b2: float) -> None:
        self.b1, self.b2 = b1, b2
        self.m: dict[str, Tensor] = {}

    def step(self, name: str, p: Tensor, g: Tensor, lr: float, decay: float) -> None:
        m = self.m.get(name, torch.zeros_like(p))
        p -= lr * (torch.sign(self.b1 * m + (1 - self.b1) * g) + decay * p)
        self.m[name] = self.b2 * m + (1 - self.b2) * g


@pytest.mark.parametrize(
    ("train", "rule"),
    [
        (settings(optimizer="sgd"), Sgd(0.95, True)),
        (settings(optimizer="sgd", momentum=0.5, nesterov=False), Sgd(0.5, False)),
        (settings(optimizer="sgd", momentum=0.0), Sgd(0.0, False)),
        (settings(optimizer="lion", betas=(0.8, 0.6)), Lion(0.8, 0.6)),
    ],
    ids=["sgd", "sgd-heavy-ball", "sgd-plain", "lion"],
)
def test_updates_are_those_of_the_formula(fit: Fit, data: Path, train: TrainSettings, rule: Sgd | Lion) -> None:
    report = fit(4, train=train)
    model = build(trial(data, train=train))
    for number, batch in enumerate(batches(data, train, 4), start=1):
        functional.cross_entropy(model(batch.inputs).transpose(1, 2), batch.targets).backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                assert p.grad is not None
                rule.step(name, p, p.grad, lr_at(RAMP, number), 0.3 if p.ndim == 2 else 0.0)
        model.zero_grad()
    alike(report.weights(), model)


def test_muon_takes_hidden_matrices_and_adamw_the_rest(fit: Fit, data: Path) -> None:
    train = settings(optimizer="muon", momentum=0.9, nesterov=False, ns_steps=4)
    report = fit(4, train=train)
    model = build(trial(data, train=train))
    hidden = [
        p
        for name, p in model.named_parameters()
        if name.rpartition(".")[2] in ("q", "k", "v", "o", "gate", "up", "down")
    ]
    assert len(hidden) == 7  # one block
    muon = torch.optim.Muon(
        hidden, weight_decay=0.3, momentum=0.9, nesterov=False, ns_steps=4, adjust_lr_fn="match_rms_adamw"
    )
    gains = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": [model.embedding, model.head], "weight_decay": 0.3}, {"params": gains, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for number, batch in enumerate(batches(data, train, 4), start=1):
        functional.cross_entropy(model(batch.inputs).transpose(1, 2), batch.targets).backward()
        for optimizer in (muon, adamw):
            for group in optimizer.param_groups:
                group["lr"] = lr_at(RAMP, number)
            optimizer.step()
        model.zero_grad()
    alike(report.weights(), model)


@pytest.mark.parametrize("clip", ["global", "per_sublayer"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_stopped_and_resumed_equals_never_stopped(fit: Fit, optimizer: str, clip: str) -> None:
    changes = {
        "train": TrainSettings(batch_size=4, optimizer=optimizer, clip=clip, clip_norm=0.1, z_loss=1e-3),  # type: ignore[arg-type]
        "model": SHAPE.model_copy(update={"ffn": "moe"}),
    }
    whole, parts = fit(7, **changes), fit(7, stops=(2, 5), due=(4,), **changes)
    assert parts.curve.to_parquet() == whole.curve.to_parquet()
    first, second = (torch.load(part.resume.checkpoint, weights_only=True) for part in (whole, parts))  # type: ignore[union-attr]
    assert same(first["state_dict"], second["state_dict"])
    assert same(first["optimizer_states"], second["optimizer_states"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_skipped_update_changes_nothing(fit: Fit, monkeypatch: pytest.MonkeyPatch, optimizer: str) -> None:
    train = TrainSettings(batch_size=4, optimizer=optimizer, skip_nonfinite=True)  # type: ignore[arg-type]
    before = fit(2, train=train)
    first = torch.load(before.resume.checkpoint, weights_only=True)  # type: ignore[union-attr]
    poison(monkeypatch, 3)
    after = fit(3, train=train)
    second = torch.load(after.resume.checkpoint, weights_only=True)  # type: ignore[union-attr]
    assert after.curve.steps[-1].skipped
    assert same(first["state_dict"], second["state_dict"])
    assert same(moments(first), moments(second))


def test_clipping_per_sublayer_shrinks_each_part_by_itself(fit: Fit, data: Path) -> None:
    """SGD without momentum: a part that is clipped moves by lr * clip_norm exactly, another by lr * its gradient."""
    train = settings(optimizer="sgd", momentum=0.0, weight_decay=0.0, clip="per_sublayer", clip_norm=0.2)
    schedule = RampSchedule(from_lr=1.0, peak_lr=2.0, steps=12)  # far above rounding
    report = fit(1, train=train, schedule=schedule)
    model = build(trial(data, train=train))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    (batch,) = batches(data, train, 1)
    functional.cross_entropy(model(batch.inputs).transpose(1, 2), batch.targets).backward()
    parts: dict[str, list[str]] = {}
    for name in before:
        found = name.split(".")
        part = f"sub-layer {found[2]}" if name.startswith(("stack.branches.", "stack.steps.")) else found[-2:][0]
        parts.setdefault(part, []).append(name)
    assert len(parts) == 5  # attention, feed-forward, embedding, head, final norm
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    norms = {part: math.hypot(*(float(grads[name].norm()) for name in names)) for part, names in parts.items()}
    assert {norm > 0.2 for norm in norms.values()} == {True, False}
    lr = lr_at(schedule, 1)
    for part, names in parts.items():
        moved = math.hypot(*(float((report.weights()[f"model.{name}"] - before[name]).norm()) for name in names))
        assert moved == pytest.approx(lr * min(0.2, norms[part]), rel=2e-3)
    step = report.curve.steps[0]
    assert step.clipped
    assert step.grad_norm == pytest.approx(math.hypot(*norms.values()), rel=1e-4)


def test_the_z_loss_is_minimised_and_not_recorded(fit: Fit, data: Path) -> None:
    train = settings(optimizer="sgd", momentum=0.0, weight_decay=0.0, z_loss=0.1)
    report, plain = fit(1, train=train), fit(1, train=train.model_copy(update={"z_loss": 0.0}))
    assert report.curve.steps[0].loss == plain.curve.steps[0].loss
    model = build(trial(data, train=train))
    (batch,) = batches(data, train, 1)
    logits = model(batch.inputs)
    loss = functional.cross_entropy(logits.transpose(1, 2), batch.targets)
    (loss + 0.1 * (logits.exp().sum(-1).log() ** 2).mean()).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= lr_at(RAMP, 1) * p.grad  # type: ignore[operator]
    alike(report.weights(), model)
    assert not same(report.weights(), plain.weights())


def batches(data: Path, train: TrainSettings, number: int) -> list[Any]:
    return [
        batch for _, batch in zip(range(number), Updates(trial(data, train=train), Shard.open(data), 0), strict=False)
    ]


def alike(weights: dict[str, Tensor], model: Transformer) -> None:
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weights[f"model.{name}"], weight, rtol=1e-3, atol=1e-5)


def moments(checkpoint: dict[str, Any]) -> list[Any]:
    (state,) = checkpoint["optimizer_states"]
    return [part["state"] for part in state.get("parts", [state])]
