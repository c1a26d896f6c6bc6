"""How many trials a search takes to come within 1% of a dense grid's best: ours, Optuna's tutorial, and random.

Run: python benchmarks/search.py [--repeats 20] [--points 60] [--real STORAGE] [--first-seed 0]

What is searched is a surrogate of docs/results/lr_sensitivity: architecture (six) and peak LR, the mean loss of three
seeds interpolated on log LR, with the seeds' scatter as noise. A run that does not learn there ends at the unigram
level. All searches see the same noisy losses; a point counts as within 1% by its mean loss, so that luck does not.
`tutorial` is Optuna's TPE as in its tutorial, where a run that did not learn has failed (as one told NaN has); `told`
is the same, told the loss of such runs. With --real the points are trained instead (search_for_real.py).
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import search_for_real
from keel_lab import composition
from keel_lab.plan.opening import OpenedSweep
from keel_lab.search.cells import Points
from keel_lab.search.study import Study
from keel_lab.search.telling import Told
from keel_lab.store.points import State
from keel_lab.store.root import Root

REAL = Path(__file__).parents[1] / "docs" / "results" / "lr_sensitivity" / "lr_sensitivity.csv"
WITHIN = 1.01
STEPS = 320  # of a trial
SWEEP = """\
schema: 1
name: surrogate
protocol: search
grid: {{architecture: [post_ln, deepnorm, hybridnorm, mix_ln, pre_ln, keel], depth: {{blocks: [8]}}}}
search:
  space: {{lr: {{log_uniform: [3e-4, 0.3]}}}}
  objectives: val_loss
  per: all
  points: {points}
  seed: {seed}
  remeasure: {{best: 0}}
schedule: {{shape: cosine, steps: 320, warmup: 10%, final_lr: 1e-7}}
model: {{width: 32, heads: 4, kv_heads: 2, ffn_width: 96, context: 32}}
"""

Asked = tuple[str, float]  # architecture, LR


@dataclass(frozen=True)
class Cell:
    """Three seeds of an architecture at one log10 LR: mean, scatter, and the share that did not learn."""

    log_lr: float
    mean: float
    scatter: float
    unlearnt: float


class Surrogate:
    """Losses of real runs, interpolated."""

    def __init__(self) -> None:
        self.cells: dict[str, list[Cell]] = {}
        with REAL.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["metric"] == "val_loss":
                    half = float(row["high"]) - float(row["low"])
                    unlearnt = int(row["not_learned"]) / int(row["n_planned"])
                    cell = Cell(math.log10(float(row["lr"])), float(row["mean"]), half / 1.69, unlearnt)  # range of 3
                    self.cells.setdefault(row["architecture"], []).append(cell)

    def at(self, asked: Asked) -> Cell:
        """Between two measured LRs, on a line."""
        cells, x = self.cells[asked[0]], math.log10(asked[1])
        right = next((i for i, cell in enumerate(cells) if cell.log_lr >= x), len(cells) - 1) or 1
        one, two = cells[right - 1], cells[right]
        share = min(1.0, max(0.0, (x - one.log_lr) / (two.log_lr - one.log_lr)))
        parts = [
            a + share * (b - a)
            for a, b in ((one.mean, two.mean), (one.scatter, two.scatter), (one.unlearnt, two.unlearnt))
        ]
        return Cell(x, *parts)

    def best(self, density: int = 61) -> float:
        """The lowest mean of a dense grid."""
        ends = [cell.log_lr for cell in self.cells["keel"]]
        grid = [ends[0] + i * (ends[-1] - ends[0]) / (density - 1) for i in range(density)]
        return min(self.at((name, 10**x)).mean for name in self.cells for x in grid)

    def run(self, asked: Asked, chance: random.Random) -> tuple[float, bool]:
        """The loss of one trial, and whether it learned."""
        cell = self.at(asked)
        return cell.mean + chance.gauss(0.0, cell.scatter), chance.random() >= cell.unlearnt


def ours(points: Points, seed: int, surrogate: Surrogate) -> Iterator[Asked]:
    """Protocol search with its default sampler."""
    chance = random.Random(seed)
    study = Study(points, points.cells[0], [])
    while not study.exhausted:
        point = study.ask()
        asked = str(point.values["architecture"]), float(point.values["schedule.lr"])
        loss, _ = surrogate.run(asked, chance)  # one that did not learn is told its loss
        study.tell(point.number, Told(State.COMPLETE, (loss,)))
        yield asked


def tutorial(
    number: int, seed: int, surrogate: Surrogate, *, sample: str = "TPESampler", fails: bool = True
) -> Iterator[Asked]:
    """Optuna by itself; a run that does not learn fails, or is told its loss."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    chance = random.Random(seed)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sample)(seed=seed))
    for _ in range(number):
        trial = study.ask()
        asked = (
            trial.suggest_categorical("architecture", list(surrogate.cells)),
            trial.suggest_float("lr", 3e-4, 0.3, log=True),
        )
        loss, learned = surrogate.run(asked, chance)
        if learned or not fails:
            study.tell(trial, loss)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        yield asked


def first_within(found: Iterator[Asked], surrogate: Surrogate, goal: float) -> float:
    """How many trials until a point within the goal was asked; Inf if none was."""
    return next((float(n) for n, asked in enumerate(found, 1) if surrogate.at(asked).mean <= goal), math.inf)


def opened(points: int, seed: int) -> OpenedSweep:
    """Our search, planned but not run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "surrogate.yaml"
        file.write_text(SWEEP.format(points=points, seed=seed))
        return composition.open_sweep(file, [], lambda: Root.open(Path(folder) / "store"))


def searched(points: int, seed: int) -> Points:
    """The points of our search."""
    found = opened(points, seed).points
    assert found is not None
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--real", metavar="STORAGE", help="train the points; trials that are there are not run again")
    parser.add_argument("--first-seed", type=int, default=0, help="of the repeats of --real")
    arguments = parser.parse_args()
    if arguments.real:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.repeats)
        plan = partial(opened, arguments.points)
        search_for_real.compare(plan, arguments.real, seeds, arguments.points, REAL, STEPS)
        return
    surrogate = Surrogate()
    goal = WITHIN * surrogate.best()
    number = arguments.points
    searches: dict[str, Callable[[int], Iterator[Asked]]] = {
        "ours": lambda seed: ours(searched(number, seed), seed, surrogate),
        "tutorial": lambda seed: tutorial(number, seed, surrogate),
        "told": lambda seed: tutorial(number, seed, surrogate, fails=False),
        "random": lambda seed: tutorial(number, seed, surrogate, sample="RandomSampler"),
    }
    said = f"{arguments.repeats} repeats, {number} points"
    print(f"within 1% of the dense grid's best of {surrogate.best():.4f} nats, {said}")
    print(f"{'search':10} {'median trials':>13} {'quartiles':>13} {'steps':>7} {'not found':>9}")
    for name, search in searches.items():
        taken = [first_within(search(seed), surrogate, goal) for seed in range(arguments.repeats)]
        low, _, high = quantiles([min(one, number + 1) for one in taken], n=4)
        missed = sum(math.isinf(one) for one in taken)
        middle = median(min(one, number + 1) for one in taken)
        print(f"{name:10} {middle:13g} {f'{low:g} to {high:g}':>13} {middle * STEPS:7g} {missed:9d}", flush=True)


if __name__ == "__main__":
    main()
