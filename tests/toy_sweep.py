"""Toy trials and sweeps, and a script that runs one with Ray as the command line would (for tests that kill it)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from keel_lab.architecture import CorpusFacts
from keel_lab.detect.thresholds import Thresholds
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.plan.siblings import with_references
from keel_lab.schedule.executor import Task
from keel_lab.settings import ALONE, Budget, ModelSettings, RampSchedule, Resources, SiblingSettings, TrainSettings
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial

THRESHOLDS = Thresholds(confirm_samples=20)
MEMORY = 64 * 1024**2


def toy_trial(architecture: str = "toy", *, seed: int = 0, steps: int = 200, cpus: int = 1, **options: float) -> Trial:
    """A ramp from 1e-4 to 0.1 by the toy trainer."""
    return Trial(
        trainer="tests.toy_trainer",
        architecture=architecture,
        options=dict(options),
        blocks=4,
        model=ModelSettings(),
        data=None,
        train=TrainSettings(),
        schedule=RampSchedule(steps=steps),
        init_seed=seed,
        data_seed=seed,
        resources=Resources(cpus=cpus, memory=MEMORY),
    )


def planned(trial: Trial) -> PlannedTrial:
    """The trial in its cell."""
    axes = tuple((name, value) for name, value in trial.options.items())
    return PlannedTrial(trial, Cell(trial.architecture, trial.blocks, axes), {"seed": trial.init_seed}, 1000)


def toy_sweep(*trials: Trial, name: str = "toys", siblings: SiblingSettings = ALONE) -> StoredSweep:
    """A stored sweep of these trials, with references if `siblings` says so."""
    data = CorpusFacts(fingerprint="0" * 64, tokens=1000, vocab=256, tokenizer="bytes", source="toy")
    return StoredSweep(
        name=name,
        spec={} if siblings == ALONE else {"siblings": siblings.model_dump()},
        thresholds=THRESHOLDS,
        data=data,
        trials=with_references(map(planned, trials), siblings),
    )


def toy_task(trial: Trial, root: Root, attempt: int = 1) -> Task:
    """A task for it."""
    return Task(trial, THRESHOLDS, root.uri, attempt)


def refusal(architecture: str) -> str:
    """What is said of a trial that the toy trainer's preflight refuses."""
    return (
        f"trainer tests.toy_trainer refuses {architecture}, 4 blocks: {architecture}: 4 heads are one too many; "
        "correct the sweep file, or the trainer's preflight"
    )


def outcome(root: Root, trial: Trial) -> tuple[bytes, dict[str, object]]:
    """What a disturbed run must have in common with an undisturbed one: the curve's bytes and the result's numbers."""
    trials = Trials(root)
    result = trials.result(trial.id)
    assert result is not None, f"{trial.architecture} has no result"
    facts = {key: value for key, value in result.to_json().items() if key != "execution"}
    return trials.curve(trial.id).to_parquet(), facts


def killable_sweep() -> StoredSweep:
    """Six trials of 200 steps: three reach the peak, three collapse on the way."""
    trials = [toy_trial(seed=seed) for seed in range(3)]
    return toy_sweep(*trials, *(toy_trial(seed=seed, collapse_lr=0.02) for seed in range(3)))


def sweep_of_a_killed_worker() -> StoredSweep:
    """Four trials, one of which ends its own worker process at its first attempt."""
    return toy_sweep(toy_trial("toy_kill_once"), *(toy_trial(seed=seed) for seed in range(3)))


def main() -> int:
    """Runs one of the two sweeps above; prints the summary as JSON."""
    from keel_lab.schedule.interrupts import Interrupts
    from keel_lab.schedule.progress import open_display
    from keel_lab.schedule.proposer import ListProposer
    from keel_lab.schedule.ray_executor import RayExecutor
    from keel_lab.schedule.runner import SweepRun
    from keel_lab.track.tracker import NullTracker

    parser = argparse.ArgumentParser()
    parser.add_argument("storage", type=Path)
    parser.add_argument("--kill-worker", action="store_true")
    parser.add_argument("--nodes", type=int, default=1, help="wait until the Ray that is joined has so many")
    arguments = parser.parse_args()
    root = Root.open(arguments.storage)
    sweep = sweep_of_a_killed_worker() if arguments.kill_worker else killable_sweep()
    executor = RayExecutor(sweep.trials[0].trial.resources)
    display = open_display(sys.stderr)
    for _ in range(600 if arguments.nodes > 1 else 0):
        if executor.slots >= arguments.nodes:
            break
        time.sleep(0.1)
    try:
        with lease.hold(root, sweep.name) as held, Interrupts() as interrupts:
            proposer = ListProposer(sweep.trials)
            summary = SweepRun(sweep, root, executor, NullTracker(), proposer, display, Budget(), interrupts).run(held)
    finally:
        display.close()
        executor.close()
    sys.stdout.write(json.dumps(asdict(summary)))
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main())
