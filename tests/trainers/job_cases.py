"""What the tests of the training job share: a report in memory, a tiny trial, and ways to compare and to break."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from keel_lab.curve import Curve, Step
from keel_lab.schedule.reporting import Resume
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.trial import DataRef, Trial
from trainers.data.shard import Shard
from trainers.model import Transformer

SHAPE = ModelSettings(width=8, heads=2, kv_heads=1, ffn_width=16, context=8)
RAMP = RampSchedule(from_lr=1e-3, peak_lr=0.1, steps=12)


class MemoryReport:
    """Ends the run after `last` steps, or earlier at `stop`; keeps the curve and the latest checkpoint."""

    def __init__(self, data: Path, folder: Path, last: int, stop: int | None = None, due: tuple[int, ...] = ()) -> None:
        self._data, self._folder, self._last, self._due = data, folder, last, due
        self.stop = stop
        self.curve = Curve()
        self.resume: Resume | None = None
        self.said: list[str] = []
        self.metrics: dict[str, float] = {}
        self.execution: dict[str, Any] = {}
        self.checkpoint_due = self.finished = False

    def data_folder(self) -> Path:
        return self._data

    def facts(self, **facts: Any) -> None:
        self.said.append("facts")
        self.execution = facts

    def step(self, step: Step, seconds: float = math.nan) -> bool:
        self.said.append("step")
        self.curve.append(step, seconds)
        self.finished = step.step >= self._last
        go_on = not self.finished and step.step != self.stop
        self.checkpoint_due = not go_on or step.step in self._due
        return go_on

    def checkpoint(self, path: Path) -> None:
        self.said.append("checkpoint")
        kept = self._folder / f"{len(self.curve)}.ckpt"
        shutil.move(path, kept)
        self.resume = Resume(len(self.curve), kept)

    def metric(self, name: str, value: float) -> None:
        self.metrics[name] = value

    def weights(self) -> dict[str, torch.Tensor]:
        assert self.resume is not None
        return torch.load(self.resume.checkpoint, weights_only=True)["state_dict"]  # type: ignore[no-any-return]


Fit = Callable[..., MemoryReport]


def trial(data: Path, /, **changes: Any) -> Trial:
    made: dict[str, Any] = {
        "architecture": "pre_ln",
        "options": {},
        "blocks": 1,
        "model": SHAPE,
        "data": DataRef(fingerprint=Shard.open(data).fingerprint, tokenizer="bytes", vocab=256),
        "train": TrainSettings(batch_size=4),
        "schedule": RAMP,
    }
    return Trial(**(made | changes))


def same(one: Any, other: Any) -> bool:
    """Bit for bit, in nested dicts and lists of tensors."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def poison(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Makes the logits of one forward pass NaN."""
    calls, forward = [0], Transformer.forward

    def poisoned(self: Transformer, *args: Any) -> torch.Tensor:
        calls[0] += 1
        return forward(self, *args) * (math.nan if calls[0] == call else 1.0)

    monkeypatch.setattr(Transformer, "forward", poisoned)
