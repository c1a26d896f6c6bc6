"""A small builder of stored sweeps: trials with made-up verdicts and curves, through the real store."""

from __future__ import annotations

import math
import random

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.curve import Curve, Step
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial

H1 = 3.0


class Lab:
    """Plans trials, gives each an outcome, and stores the sweep."""

    ramp = RampSchedule(shape="log", from_lr=1e-4, peak_lr=0.1, steps=301)  # 0.01 decades a step
    thresholds = Thresholds()

    def __init__(self, root):
        self.root = root
        self.trials, self.sweeps = Trials(root), Sweeps(root)
        self.planned = {}

    def plan(
        self, sweep, architecture, blocks=16, seed=0, *, data_seed=None, axes=(), options=None, schedule=None, data=None
    ):
        trial = Trial(
            architecture=architecture,
            options=options or {},
            blocks=blocks,
            model=ModelSettings(),
            data=data,
            train=TrainSettings(),
            schedule=schedule or self.ramp,
            init_seed=seed,
            data_seed=seed if data_seed is None else data_seed,
        )
        planned = PlannedTrial(trial, Cell(architecture, blocks, axes), {"seed": seed, **dict(axes)}, 1000 * blocks)
        self.planned.setdefault(sweep, []).append(planned)
        return planned

    def finish(self, planned, verdict, *, thresholds=None, metrics=None, curve=None, host="a"):
        """Commits a result; `host` stands for everything that differs between identical runs."""
        curve = curve or flat_curve(planned.trial, 3)
        diverged = verdict.status is Status.DIVERGED
        result = TrialResult(
            planned.trial.id,
            Outcome.DIVERGED if diverged else Outcome.COMPLETED,
            len(curve),
            verdict,
            (thresholds or self.thresholds).model_dump(mode="json"),
            metrics or {},
            {"unigram_entropy": H1},
            {"host": host, "started_at": float(len(host)), "finished_at": 7.5, "seconds_per_step": 0.25},
        )
        self.trials.put_trial(planned.trial)
        self.trials.commit(result, curve)

    def fail(self, planned, kind=FailureKind.OOM):
        self.trials.add_attempt(planned.trial.id, Failure(kind, "out of memory"))

    def save(self, sweep, thresholds=None):
        facts = CorpusFacts("f" * 64, 10_000, 256, "bytes", "stdlib")
        found = tuple(self.planned[sweep])
        return self.sweeps.save(StoredSweep(sweep, {}, thresholds or self.thresholds, facts, found))

    def diverged(self, planned, onset, mode=Mode.COLLAPSE):
        schedule = planned.trial.schedule
        return Verdict(Status.DIVERGED, mode, onset, onset - 1, lr_at(schedule, onset - 1), learned=True)

    def healthy(self, planned):
        schedule = planned.trial.schedule
        last = schedule.steps
        return Verdict(Status.HEALTHY, None, None, last, lr_at(schedule, last), censored=True, learned=True)

    def stagnant(self):
        return Verdict(Status.DIVERGED, Mode.STAGNATION, 1, None, None, learned=False)

    def seeds(self, sweep, architecture, blocks, onsets, **more):
        """One seed an entry: an onset step, None for censored, or the word of what else became of it."""
        for seed, onset in enumerate(onsets):
            planned = self.plan(sweep, architecture, blocks, seed, **more)
            if onset == "failed":
                self.fail(planned)
            elif onset == "stagnant":
                self.finish(planned, self.stagnant())
            elif onset != "not_run":
                self.finish(planned, self.healthy(planned) if onset is None else self.diverged(planned, onset))


def flat_curve(trial, steps):
    curve = Curve()
    for step in range(1, steps + 1):
        curve.append(Step(step, 2.5, lr_at(trial.schedule, step), H1, 1.0))
    return curve


def falling_curve(trial, steps, onset=None, seed=0):
    """Falls from 5.5 nats to 2.4, then back to the unigram level from `onset` on."""
    noise, curve = random.Random(seed), Curve()
    for step in range(1, steps + 1):
        level = 2.4 + 3.1 * math.exp(-step / 40)
        if onset is not None and step >= onset:
            level = min(H1 + 0.02, level + 0.05 * (step - onset))
        unigram = H1 + noise.gauss(0, 0.2)
        loss = level + unigram - H1 + noise.gauss(0, 0.05)
        curve.append(Step(step, loss, lr_at(trial.schedule, step), unigram, 1.0))
    return curve


@pytest.fixture
def lab(tmp_path):
    return Lab(Root.open(tmp_path / "store"))


@pytest.fixture
def curve_like():
    return falling_curve
