"""Holds the learning rate of runs on whose plots two labellers differed, to see what becomes of them.

Run: keel-lab run tests/data/corpus/SWEEP.yaml (for each sweep below), then python benchmarks/deciding_forks.py

docs/detectors.md says what this is for. A fork repeats its run to a step, then holds that step's learning rate on the
same data. What decides is the mean paired loss of its last 60 steps: within 0.1 nats of the run's best level, it was
regained (a transient); else it was lost, and within 0.25 nats of H1 the mode is collapse. Where one labeller saw a mode
and the other could not know yet, only whether it is regained is asked.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.corpus import LABELS
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.thresholds import Thresholds
from keel_lab.errors import UsageError
from keel_lab.learning_rate import lr_at
from keel_lab.schedule.executor import Task
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.worker import execute
from keel_lab.settings import ForkSchedule
from keel_lab.store.root import resolve_root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

FORKS = LABELS.with_name("forks.csv")
SETTLED = 60  # steps: the level of so many last ones decides
WINDOW = 20  # steps: the best level is that of the best so many of the trunk
NEAR_H1 = 0.25  # nats
REGAINED = 0.1  # nats above the best level
NEVER = Thresholds(alarm_sigma=1e9, blowup_margin=1e9)  # no detector stops a fork


def fork(storage: str | None, called: str, at: int, held: int) -> str:
    """Runs one fork and says what it decides, in a line.

    Args:
        storage: URI of the storage that holds the run.
        called: SWEEP/TRIAL.
        at: the step whose LR is held.
        held: steps at that LR.
    """
    root = resolve_root(storage)
    trials = Trials(root)
    sweep, name = called.split("/")
    found = [one.trial for one in Sweeps(root).load(sweep).trials if one.name == name]
    if not found or isinstance(found[0].schedule, ForkSchedule):
        raise UsageError(
            f"{called}: {sweep} in this storage has no such trial; run tests/data/corpus/{sweep}.yaml first"
        )
    trunk = found[0].schedule
    lr = lr_at(trunk, at)
    forked = found[0].with_schedule(ForkSchedule(trunk=trunk, at=at, lr=lr, steps=at + held))
    trials.put_trial(forked)
    entropy = float(str(execute(Task(forked, NEVER, root.uri), LocalMailbox()).data["unigram_entropy"]))
    losses = [paired_loss(step.loss, step.unigram_loss, entropy) for step in trials.curve(forked.id).steps]
    best = min(fmean(losses[start : start + WINDOW]) for start in range(at - WINDOW))
    level = fmean(losses[-SETTLED:])
    lost = "lost, at H1" if abs(level - entropy) < NEAR_H1 else "lost"
    answer = "regained" if level < best + REGAINED else lost
    return f"{called:48} {at:4} {held:5}  {lr:8.3g}  {best:6.3f}  {level:6.3f}  {entropy:6.3f}  {answer}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--storage", help="storage of the corpus' sweeps (default: as keel-lab's)")
    parser.add_argument("--forks", type=Path, default=FORKS, help="CSV: trial,at,held")
    arguments = parser.parse_args()
    print(f"{'trial':48} {'at':>4} {'held':>5}  {'lr':>8}  {'best':>6}  {'level':>6}  {'H1':>6}  it is")
    with arguments.forks.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                print(fork(arguments.storage, row["trial"], int(row["at"]), int(row["held"])), flush=True)
            except UsageError as error:
                print(f"deciding_forks: {error}", file=sys.stderr)
                return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
