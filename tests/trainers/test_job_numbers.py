"""Every recorded number of the training job, against a bare loop or by hand."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from keel_lab.learning_rate import lr_at
from keel_lab.settings import GridSchedule, RampSchedule, TrainSettings
from tests.trainers.job_cases import RAMP, Fit, MemoryReport, poison, trial
from trainers import job
from trainers.batches import Updates
from trainers.data.sampler import heldout_starts, windows
from trainers.data.shard import Shard
from trainers.model import build


@pytest.mark.parametrize("clip_norm", [0.5, "off"])
def test_every_recorded_number_equals_a_bare_loops(fit: Fit, data: Path, clip_norm: float | str) -> None:
    train = TrainSettings(batch_size=4, clip_norm=clip_norm, weight_decay=0.3, eps=1e-6)  # type: ignore[arg-type]
    report = fit(8, train=train)
    asked, shard = trial(data, train=train), Shard.open(data)
    model = build(asked)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-6, foreach=False)
    clipped = set()
    for step, batch in zip(report.curve, Updates(asked, shard, 0), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(RAMP, step.step)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(batch.inputs).transpose(1, 2), batch.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if clip_norm == "off" else float(clip_norm))
        optimizer.step()
        assert step.lr == lr_at(RAMP, step.step)
        assert step.loss == pytest.approx(loss.item(), rel=1e-4)
        assert step.grad_norm == pytest.approx(norm.item(), rel=1e-3)
        assert step.unigram_loss == pytest.approx(float(shard.unigram.nats[batch.targets.numpy()].mean()))
        assert step.tokens == step.step * 4 * 8
        assert step.clipped == (clip_norm != "off" and step.grad_norm > float(clip_norm))
        assert (step.skipped, step.weights_finite) == (False, True)
        clipped.add(step.clipped)
    assert clipped == ({False} if clip_norm == "off" else {True}) or len(clipped) == 2
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(report.weights()[f"model.{name}"], weight, rtol=1e-3, atol=1e-5)


def test_the_first_update_moves_a_gain_by_exactly_the_recorded_lr(fit: Fit) -> None:
    """Adam's first update is lr * sign(gradient), and gains, which start at one, do not decay."""
    report = fit(1, schedule=GridSchedule(lr=0.02, steps=4, warmup_steps=2))
    moved = [(w - 1).abs() for name, w in report.weights().items() if name.endswith("gain")]
    assert report.curve.steps[0].lr == 0.01
    assert torch.cat(moved).median().item() == pytest.approx(0.01, rel=1e-3)


def test_accumulation_sees_the_same_data(fit: Fit) -> None:
    whole, halves = fit(6), fit(6, train=TrainSettings(batch_size=4, accumulate=2))
    assert len(halves.curve) == 6
    for one, other in zip(whole.curve, halves.curve, strict=True):
        assert other.unigram_loss == pytest.approx(one.unigram_loss, rel=1e-12)
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-3)
        assert (other.lr, other.tokens) == (one.lr, one.tokens)


def test_a_ramp_to_a_huge_lr_collapses(fit: Fit) -> None:
    losses = [step.loss for step in fit(30, schedule=RampSchedule(from_lr=1e-3, peak_lr=30.0, steps=30)).curve]
    assert min(losses) < losses[0] - 0.5
    assert not losses[-1] < min(losses) + 1.0  # NaN counts


def test_bf16_keeps_weights_and_loss_in_fp32(fit: Fit) -> None:
    exact, rounded = fit(3), fit(3, train=TrainSettings(batch_size=4, precision="bf16"))
    assert {weight.dtype for weight in rounded.weights().values()} == {torch.float32}
    for one, other in zip(exact.curve, rounded.curve, strict=True):
        assert other.loss != one.loss
        assert other.loss == pytest.approx(one.loss, rel=1e-2)


def test_a_grid_schedule_ends_with_the_loss_on_fixed_held_out_sequences(fit: Fit, data: Path) -> None:
    schedule = GridSchedule(lr=0.01, steps=4, warmup_steps=1, validation_sequences=10)
    report = fit(4, schedule=schedule)
    model, shard = build(trial(data)), Shard.open(data)
    model.load_state_dict({name.removeprefix("model."): weight for name, weight in report.weights().items()})
    tokens = torch.from_numpy(windows(shard.heldout, heldout_starts(10, len(shard.heldout) - 8), 8))
    with torch.no_grad():
        expected = functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
    assert report.metrics == {"val_loss": pytest.approx(expected.item(), rel=1e-5)}


def test_no_validation_for_a_ramp_a_stopped_run_or_broken_weights(
    fit: Fit, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = GridSchedule(lr=0.01, steps=4, warmup_steps=1)
    assert fit(4).metrics == {}
    stopped = MemoryReport(data, tmp_path, last=4, stop=2)
    job.run(trial(data, schedule=schedule), tmp_path, stopped)
    assert stopped.metrics == {}
    poison(monkeypatch, call=4)
    assert fit(4, schedule=schedule).metrics == {}
