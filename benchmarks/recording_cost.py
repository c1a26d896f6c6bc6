"""What recording a step costs: unigram look-up, reading loss and norm, Step, curve, detector and live news.

One run, in which every other stretch of steps trains without recording: both arms see the same minutes of a noisy
machine, and CPU time is read (one thread), which what else runs there disturbs less than wall time. The gradient norm
is part of both arms, since clipping needs it.

    python benchmarks/recording_cost.py            # the quickstart's width at a depth of about 10 ms a step
    python benchmarks/recording_cost.py --blocks 16
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback

from keel_lab.curve import Step
from keel_lab.detect.thresholds import Thresholds
from keel_lab.schedule.executor import Task
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.session import Session
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.store.root import Root
from keel_lab.trial import DataRef, Trial
from trainers import fitting
from trainers.data import corpus
from trainers.data.shard import Shard
from trainers.data.unigram import Unigram
from trainers.lightning_module import TrialModule
from trainers.model import build
from trainers.recording import Recording

STRETCH = 10  # steps; the first of each is not counted, as its data was fetched in the stretch before
WARM_UP = 2 * STRETCH


class Switch:
    """Whether the current stretch records."""

    step = 0

    @property
    def on(self) -> bool:
        """Whether this step is recorded."""
        return self.step // STRETCH % 2 == 0


class SwitchedUnigram:
    """The table, consulted only where the stretch records."""

    def __init__(self, table: Unigram, switch: Switch) -> None:
        self._table, self._switch = table, switch

    def loss(self, targets: Any) -> float:
        """See `Unigram.loss`; 0 where nothing is recorded."""
        return self._table.loss(targets) if self._switch.on else 0.0


class SwitchedModule(TrialModule):
    """Clips as training must, and reads numbers only where the stretch records."""

    def __init__(self, trial: Trial, shard: Shard, switch: Switch) -> None:
        super().__init__(trial, build(trial), shard)
        self._switch = switch

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """As a training without recording would, where nothing is recorded."""
        if self._switch.on:
            super().configure_gradient_clipping(optimizer, *args, **kwargs)
        else:
            self._losses.clear()
            self._unigram_losses.clear()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)


class Clock(Callback):
    """Times every step and turns the switch; the last of the callbacks."""

    def __init__(self, switch: Switch, steps: int) -> None:
        self._switch, self._steps = switch, steps
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self._before = math.nan

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        """Ends a step."""
        now = time.process_time()
        if self._switch.step >= WARM_UP and self._switch.step % STRETCH:
            self.seconds[self._switch.on].append(now - self._before)
        self._switch.step += 1
        trainer.should_stop = self._switch.step >= self._steps
        self._before = time.process_time()


class Renumbered:
    """A session that sees only the recorded steps and therefore counts them itself."""

    def __init__(self, session: Session) -> None:
        self._session, self._count = session, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def step(self, step: Step, seconds: float) -> bool:
        """See `Report.step`."""
        self._count += 1
        return self._session.step(step._replace(step=self._count), seconds)


def measure(blocks: int, steps: int, folder: Path) -> dict[bool, list[float]]:
    """CPU seconds of each step, by whether it was recorded."""
    data = {"corpus": "stdlib", "tokenizer": "bytes"}
    facts = corpus.facts(data, folder)
    corpus.prepare(data, folder, facts, folder / "data" / facts.fingerprint)
    shard = Shard.open(folder / "data" / facts.fingerprint)
    trial = Trial(
        architecture="pre_ln",
        options={},
        blocks=blocks,
        model=ModelSettings(),
        data=DataRef(fingerprint=facts.fingerprint, tokenizer="bytes", vocab=facts.vocab),
        train=TrainSettings(),
        schedule=RampSchedule(from_lr=1e-4, peak_lr=1e-3, steps=10 * steps),
    )
    switch, root = Switch(), Root.open(folder)
    session = Session(Task(trial, Thresholds(), str(folder)), root, LocalMailbox(), folder)
    session.facts(unigram_entropy=shard.unigram.entropy, chance=shard.unigram.chance)
    object.__setattr__(shard, "unigram", SwitchedUnigram(shard.unigram, switch))
    module, clock = SwitchedModule(trial, shard, switch), Clock(switch, steps)
    recording = Recording(trial, module, shard, folder, Renumbered(session))  # type: ignore[arg-type]
    with fitting.reproducible(threads=1):
        trainer = fitting._trainer(trial, "cpu", folder, recording)
        trainer.callbacks.append(clock)
        trainer.fit(module)
    return clock.seconds


def stretches(seconds: list[float]) -> list[list[float]]:
    """The steps of each stretch."""
    size = STRETCH - 1
    return [seconds[start : start + size] for start in range(0, len(seconds) - size + 1, size)]


def main() -> None:
    """Prints the median over neighbouring stretches, as a share of the step and of 10 ms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(asked.blocks, asked.steps, Path(folder))
    recorded, bare = ([statistics.median(part) for part in stretches(seconds[on])] for on in (True, False))
    costs = sorted(1e3 * (one - other) for one, other in zip(recorded, bare, strict=False))
    step, cost = 1e3 * statistics.median(bare), statistics.median(costs)
    low, high = costs[len(costs) // 4], costs[3 * len(costs) // 4]
    print(f"{asked.blocks} blocks, {len(costs)} pairs of stretches of {STRETCH - 1} steps, {step:.3f} ms a bare step")
    shares = f"{cost / step:.2%} of it, {cost / 10:.2%} of 10 ms"
    print(f"recording: {cost:.3f} ms (quartiles {low:.3f} to {high:.3f}), {shares}")


if __name__ == "__main__":
    main()
