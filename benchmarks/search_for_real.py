"""The searches of benchmarks/search.py on real training; a trial that is in storage, from any search, costs nothing.

Every trial has seed 0. A point counts as within 1% if its own loss is, which is all that a search sees, and its mean
over the seeds of the dense grid is as well, so that luck does not count. At its end the best point of a search is
measured by the other seeds alone. These trials judge a search and are not among its own. The grid is
docs/results/lr_sensitivity.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

from keel_lab import composition
from keel_lab.detect.thresholds import Thresholds
from keel_lab.plan.opening import OpenedSweep, store_corpus
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.executor import Task
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.search.study import Study
from keel_lab.search.telling import Run, tell
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials

WITHIN = 1.01
SEEDS = (0, 1, 2)  # of the dense grid; a search sees the first


@dataclass(frozen=True)
class Tried:
    """A point that a search tried: its trial's loss in nats, and what it asked for."""

    architecture: str
    lr: float
    loss: float


class RealRuns:
    """Trains points, once each.

    Args:
        opened: the search whose points they are.
        storage: where trials are looked up and kept.
    """

    def __init__(self, opened: OpenedSweep, storage: str) -> None:
        assert opened.points is not None
        self.points = opened.points
        self._root = Root.open(storage)
        self.trials = Trials(self._root)
        self.trained = 0
        store_corpus(opened, self._root, composition.catalogue())

    def planned(self, architecture: str, lr: float, seed: int) -> PlannedTrial:
        """The trial of a point."""
        values = {**self.points.cells[0].fixed, "architecture": architecture, "schedule.lr": lr}
        (planned,) = self.points.trials(values, [seed])
        return planned

    def result(self, planned: PlannedTrial) -> TrialResult:
        """From storage, or trained.

        Raises:
            RuntimeError: if the trial failed.
        """
        stored = self.trials.result(planned.trial.id)
        if stored is not None:
            return stored
        self.trained += 1
        self.trials.put_trial(planned.trial)
        executor = LocalExecutor()
        executor.submit(Task(planned.trial, Thresholds(), self._root.uri))
        done = executor.next_done(0)
        if done is None or done.result is None:
            raise RuntimeError(f"{planned.name}: {None if done is None else done.failure}")
        return done.result

    def loss(self, architecture: str, lr: float, seed: int) -> float:
        """Of one trial, nats a token."""
        return self.result(self.planned(architecture, lr, seed)).metrics["val_loss"]

    def holds(self, tried: Tried, goal: float) -> bool:
        """Whether a point is within the goal by its own loss and by the mean over the grid's seeds."""
        if not tried.loss <= goal:
            return False
        return fmean(self.loss(tried.architecture, tried.lr, seed) for seed in SEEDS) <= goal


def ours(runs: RealRuns) -> Iterator[Tried]:
    """Protocol search with its default sampler, told as it tells."""
    study = Study(runs.points, runs.points.cells[0], [])
    while not study.exhausted:
        point = study.ask()
        (planned,) = point.trials
        result = runs.result(planned)
        run = Run(planned, result, partial(runs.trials.curve, planned.trial.id))
        study.tell(point.number, tell(runs.points.search, [run]))
        yield Tried(str(point.values["architecture"]), float(point.values["schedule.lr"]), result.metrics["val_loss"])


def optunas(
    runs: RealRuns, number: int, seed: int, *, sample: str = "TPESampler", fails: bool = True
) -> Iterator[Tried]:
    """Optuna by itself; a run that diverged or did not learn fails, or is told its loss."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sample)(seed=seed))
    (architectures,) = (one.domain.values for one in runs.points.cells[0].joint)
    for _ in range(number):
        trial = study.ask()
        architecture = trial.suggest_categorical("architecture", list(architectures))
        lr = trial.suggest_float("lr", 3e-4, 0.3, log=True)
        result = runs.result(runs.planned(architecture, lr, SEEDS[0]))
        if fails and result.outcome is Outcome.DIVERGED:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, result.metrics["val_loss"])
        yield Tried(architecture, lr, result.metrics["val_loss"])


def grids_best(file: Path) -> float:
    """The lowest mean loss of the dense grid."""
    with file.open(newline="", encoding="utf-8") as rows:
        return min(float(row["mean"]) for row in csv.DictReader(rows) if row["metric"] == "val_loss" and row["mean"])


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        trials: how many it took to come within the goal; Inf if it did not.
        best: the point whose loss was the lowest.
        again: the mean loss of that point over seeds that the search has not seen.
    """

    trials: float
    best: Tried
    again: float


def follow(search: Iterator[Tried], runs: RealRuns, goal: float) -> Found:
    """Lets a search run to its end."""
    first, tried = math.inf, []
    for count, one in enumerate(search, 1):
        tried.append(one)
        if math.isinf(first) and runs.holds(one, goal):
            first = count
    best = min(tried, key=lambda one: one.loss)
    return Found(first, best, fmean(runs.loss(best.architecture, best.lr, seed) for seed in SEEDS[1:]))


def compare(
    opened: Callable[[int], OpenedSweep], storage: str, seeds: range, points: int, grid: Path, steps: int
) -> None:
    """Prints, for every search and seed, how many trials it took and what its best point was; then a table."""
    goal = WITHIN * grids_best(grid)
    print(f"within 1% of the dense grid's best of {goal / WITHIN:.4f} nats, real training, {points} points a search")
    found: dict[str, list[Found]] = {}
    for seed in seeds:
        runs = RealRuns(opened(seed), storage)
        searches = {
            "ours": ours(runs),
            "tutorial": optunas(runs, points, seed),
            "told": optunas(runs, points, seed, fails=False),
            "random": optunas(runs, points, seed, sample="RandomSampler"),
        }
        for name, search in searches.items():
            before = runs.trained
            one = follow(search, runs, goal)
            found.setdefault(name, []).append(one)
            best = (
                f"best {one.best.architecture} at {one.best.lr:.3g}: {one.best.loss:.4f}, other seeds {one.again:.4f}"
            )
            told = f"{one.trials:g} trials; {best}; {runs.trained - before} trained now"
            print(f"seed {seed} {name:10} {told}", flush=True)
    measured = f"{'best, other seeds':>22}"
    print(f"{'search':10} {'median trials':>13} {'steps':>6} {'not found':>9} {measured}  trials, each seed")
    for name, all_of in found.items():
        counts = [min(one.trials, points + 1) for one in all_of]
        missed = sum(math.isinf(one.trials) for one in all_of)
        again = [one.again for one in all_of]
        shown = f"{median(again):.3f} ({min(again):.3f} to {max(again):.3f})"
        each = ", ".join(f"{one.trials:g}" for one in all_of)
        print(f"{name:10} {median(counts):13g} {median(counts) * steps:6g} {missed:9d} {shown:>22}  {each}")
