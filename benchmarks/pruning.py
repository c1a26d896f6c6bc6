"""What cutting runs saves and costs: Optuna's median pruner alone, and with slow starters spared (our default).

The 18 real runs of docs/results/table2 (Pre-LN and Keel, three LRs, three seeds, 320 steps) are replayed in random
orders, one after the other, as a search would meet them: the pruner sees each run's loss at eight rungs and may end it.
Prints the share of all steps that is trained, and how often the run that ends lowest is trained to its end.

    .venv/bin/python benchmarks/pruning.py
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import optuna
import pandas as pd

from keel_lab.curve import Step
from keel_lab.search.pruning import slow_starter
from keel_lab.search.rungs import rung_loss, rung_steps

CURVES = Path(__file__).parents[1] / "docs" / "results" / "table2" / "curves.parquet"
STEPS, RUNGS, ORDERS = 320, 8, 200


def rungs() -> dict[str, dict[int, float]]:
    """Paired loss, nats a token, by step at eight rungs of each run."""
    found = {}
    for name, rows in pd.read_parquet(CURVES).sort_values("step").groupby("trial"):
        steps = [Step(row.step, row.loss, row.lr, row.unigram_loss) for row in rows.itertuples()]
        entropy = float(rows.unigram_loss.mean())
        found[str(name)] = {mark: rung_loss(steps[:mark], STEPS, entropy) for mark in rung_steps(STEPS, RUNGS)}
    return found


def replay(runs: Mapping[str, Mapping[int, float]], order: Sequence[str], *, spare: bool) -> dict[str, int]:
    """The step at which each run ends, when they are met in this order."""
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    ends, seen = {}, []
    for name in order:
        trial, reached = study.ask(), {}
        for step, loss in runs[name].items():
            trial.report(loss, step)
            reached[step], ends[name] = loss, step
            if trial.should_prune() and not (spare and slow_starter(reached, seen, STEPS)):
                break
        seen.append(reached)
        cut = ends[name] < STEPS
        study.tell(trial, None if cut else reached[STEPS], state=optuna.trial.TrialState.PRUNED if cut else None)
    return ends


def main() -> None:
    """Prints both."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    runs = rungs()
    best = min(runs, key=lambda name: runs[name][STEPS])
    for words, spare in (("median pruner alone", False), ("slow starters spared", True)):
        ends = []
        for seed in range(ORDERS):
            order = sorted(runs)
            random.Random(seed).shuffle(order)
            ends.append(replay(runs, order, spare=spare))
        trained = sum(sum(one.values()) for one in ends) / (ORDERS * len(runs) * STEPS)
        kept = sum(one[best] == STEPS for one in ends) / ORDERS
        print(f"{words}: {trained:.0%} of the steps, the best run ({best}) to its end in {kept:.0%} of {ORDERS} orders")


if __name__ == "__main__":
    main()
