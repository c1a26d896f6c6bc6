"""The training job: exact continuation, independence of everything but the trial, refusals."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from keel_lab.curve import Step
from keel_lab.errors import KeelLabError, UsageError
from keel_lab.schedule.reporting import Resume
from keel_lab.settings import GridSchedule, Resources, TrainSettings
from keel_lab.trial import DataRef
from tests.trainers.job_cases import SHAPE, Fit, MemoryReport, poison, same, trial
from tests.trainers.schemes import options
from trainers import architectures, job
from trainers.data.shard import Shard


@pytest.mark.parametrize("accumulate", [1, 2])
def test_stopped_and_resumed_equals_never_stopped(fit: Fit, accumulate: int) -> None:
    """The first stop is within the ramp, the second while the peak is held, with a checkpoint by time in between."""
    train = TrainSettings(batch_size=4, accumulate=accumulate)
    whole = fit(18, train=train)
    parts = fit(18, stops=(5, 14), due=(9,), train=train)
    assert parts.curve.to_parquet() == whole.curve.to_parquet()
    assert [step.step for step in parts.curve] == list(range(1, 19))
    assert whole.resume is not None
    assert parts.resume is not None
    first, second = (torch.load(part.resume.checkpoint, weights_only=True) for part in (whole, parts))  # type: ignore[union-attr]
    assert same(first["state_dict"], second["state_dict"])
    assert same(first["optimizer_states"], second["optimizer_states"])
    assert first["global_step"] == second["global_step"] == 18


@pytest.mark.parametrize("name", architectures.names())
def test_every_architecture_goes_on_bit_for_bit(fit: Fit, name: str) -> None:
    """Its learnt factors and its profile are in the checkpoint, and so is a MoE's router."""
    changes = {"architecture": name, "options": options(name, 2), "blocks": 2}
    changes["model"] = SHAPE.model_copy(update={"ffn": "moe", "qk_norm": True, "init_std": "match_width"})
    whole, parts = fit(5, **changes), fit(5, stops=(3,), **changes)
    assert parts.curve.to_parquet() == whole.curve.to_parquet()
    assert same(parts.weights(), whole.weights())


def test_a_run_whose_curve_is_already_over_trains_no_further(fit: Fit, data: Path, tmp_path: Path) -> None:
    report = fit(3)
    before = report.said.copy()
    assert report.finished
    job.run(trial(data), tmp_path, report)
    assert report.said == [*before, "facts"]


def test_a_checkpoint_of_another_step_is_refused(fit: Fit, data: Path, tmp_path: Path) -> None:
    report = fit(3)
    assert report.resume is not None
    report.resume, report.finished = Resume(2, report.resume.checkpoint), False
    with pytest.raises(KeelLabError, match="checkpoint was written after 3 updates, not 2"):
        job.run(trial(data), tmp_path, report)


def test_nothing_but_the_trial_matters(fit: Fit) -> None:
    """Not what the process did before, nor its generators, nor its settings, which it gets back."""
    first = fit(6)
    threads = torch.get_num_threads()
    try:
        torch.manual_seed(99)
        torch.set_num_threads(2)
        fit(3, blocks=2, train=TrainSettings(batch_size=4, precision="bf16"), init_seed=5)
        again = fit(6)
        assert torch.get_num_threads() == 2
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(threads)
    assert again.curve.to_parquet() == first.curve.to_parquet()
    assert same(again.weights(), first.weights())
    assert fit(6, data_seed=1).curve.to_parquet() != first.curve.to_parquet()
    assert fit(6, init_seed=1).curve.to_parquet() != first.curve.to_parquet()


def test_a_non_finite_update_is_skipped_and_recorded(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    train = TrainSettings(batch_size=4, skip_nonfinite=True)
    before = fit(3, train=train).weights()
    poison(monkeypatch, call=4)
    at = fit(4, train=train)
    assert same(at.weights(), before)
    poison(monkeypatch, call=4)
    report = fit(6, stops=(4,), train=train)  # the skipped update is also where it stops and resumes
    bad, good = report.curve.steps[3], report.curve.steps[4]
    assert math.isnan(bad.loss)
    assert math.isnan(bad.grad_norm)
    assert (bad.skipped, bad.clipped, bad.weights_finite) == (True, False, True)
    assert (good.skipped, good.weights_finite) == (False, True)
    assert math.isfinite(good.loss)


def test_without_skipping_the_weights_are_found_broken_at_that_very_step(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, call=4)
    steps = fit(5, schedule=GridSchedule(lr=0.01, steps=5, warmup_steps=2)).curve.steps
    assert [step.weights_finite for step in steps] == [True, True, True, False, False]
    assert not any(step.skipped for step in steps)


def test_signals_stay_with_the_caller(data: Path, tmp_path: Path) -> None:
    """Lightning would answer SIGTERM with SystemExit in the middle of a clean stop, and turn Ctrl-C off."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    ours, interrupt = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    class Terminated(MemoryReport):
        def step(self, step: Step, seconds: float = math.nan) -> bool:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().step(step, seconds)

    class Interrupted(MemoryReport):
        def step(self, step: Step, seconds: float = math.nan) -> bool:
            raise KeyboardInterrupt

    try:
        terminated = Terminated(data, tmp_path, last=3)
        job.run(trial(data), tmp_path, terminated)
        assert (len(terminated.curve), len(seen)) == (3, 3)
        with pytest.raises(KeyboardInterrupt):
            job.run(trial(data), tmp_path, Interrupted(data, tmp_path, last=3))
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == (ours, interrupt)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_facts_come_first_and_say_how_it_was_run(fit: Fit, data: Path) -> None:
    report = fit(2)
    unigram = Shard.open(data).unigram
    assert report.said == ["facts", "step", "step", "checkpoint"]
    assert report.execution["unigram_entropy"] == unigram.entropy
    assert report.execution["chance"] == math.log(256)
    assert report.execution["threads"] == 1
    assert report.execution["torch"] == torch.__version__
    assert all(seconds > 0 for seconds in report.curve.seconds)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": TrainSettings(batch_size=4, accumulate=3)}, "train.accumulate: found 3; it must divide"),
        ({"resources": Resources(gpus=2)}, "resources.gpus: found 2"),
        ({"data": None}, "data: missing"),
        ({"data_seed": 2**64}, "data_seed: found 18446744073709551616"),
        ({"numerics": 0}, "planned for numerics 0"),
    ],
)
def test_preflight_refuses_what_cannot_be_trained(data: Path, changes: dict[str, Any], message: str) -> None:
    job.preflight(trial(data))
    with pytest.raises(UsageError) as error:
        job.preflight(trial(data, **changes))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": SHAPE.model_copy(update={"context": 2000})}, "model.context: found 2000, but the corpus has only"),
        ({"data": DataRef(fingerprint="other", tokenizer="bytes", vocab=256)}, "asks for other"),
        ({"resources": Resources(gpus=1)}, "resources.gpus: found 1, but torch .* sees no CUDA device"),
    ],
)
def test_run_refuses_what_cannot_be_trained_here(
    fit: Fit, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=message):
        fit(2, **changes)
