"""Deleting what finished trials no longer need: their checkpoints. Results, curves and failures always stay.

A checkpoint of a finished trial serves two things only: going on under thresholds that ask for more steps, and starting
forks on the way. Without it either is done by training again from the start, to the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from keel_lab.store.best_trials import best_trials
from keel_lab.store.committed import path_of
from keel_lab.store.document import is_name
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials

Keep = Literal["none", "last", "best"]
KEEP: tuple[Keep, ...] = ("none", "last", "best")
_ALL, _FOR_FORKS = ("checkpoints", "kept"), ("kept",)


@dataclass(frozen=True)
class Cleaned:
    """What was deleted, or would be.

    Attributes:
        trials: finished trials that had something to delete.
        bytes: of all files.
        unfinished: trials without a result, which were left alone.
        kept: files of finished trials that stay.
    """

    trials: int
    files: int
    bytes: int
    unfinished: int
    dry_run: bool
    kept: int = 0

    def text(self) -> str:
        """A line."""
        doing = "would delete" if self.dry_run else "deleted"
        left = f"; {self.unfinished} unfinished left alone" if self.unfinished else ""
        kept = f"; {self.kept:,} checkpoint files of finished trials stay (--keep none)" if self.kept else ""
        what = f"{self.files:,} files, {self.bytes / 2**20:,.1f} MiB, of {self.trials:,} finished trials"
        return f"{doing} {what}{kept}{left}"

    def to_json(self) -> dict[str, int | bool]:
        """JSON-ready."""
        return asdict(self)


def clean(root: Root, keep: Keep, *, dry_run: bool) -> Cleaned:
    """Deletes checkpoints of finished trials.

    Pointers go before the files that they name, so that whoever is killed in between leaves files, never a pointer to
    nothing.

    Args:
        root: storage.
        keep: `last` keeps each trial's last checkpoint and deletes those for forks; `best` keeps that of the best trial
            of each cell only, see `best_trials`; `none` keeps none.
        dry_run: only count.

    Raises:
        KeelLabError: with `best`, if a sweep is damaged; nothing was deleted then.
    """
    trial_ids = list(filter(is_name, root.list("trials")))
    finished = Trials(root).results(trial_ids)
    best = best_trials(root, finished) if keep == "best" else frozenset()
    trials = files = size = kept = 0
    for trial_id in finished:
        spared = keep == "last" or trial_id in best
        paths = list(_paths(root, trial_id, _FOR_FORKS if spared else _ALL))
        kept += len(list(_paths(root, trial_id, ("checkpoints",)))) if spared else 0
        sizes = root.stats(paths)
        trials, files = trials + bool(sizes), files + len(sizes)
        size += sum(stat.size for stat in sizes.values())
        for path in [] if dry_run else paths:
            root.delete(path)
    return Cleaned(trials, files, size, len(trial_ids) - len(finished), dry_run, kept)


def _paths(root: Root, trial_id: str, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        names = root.list(path_of(trial_id, folder))
        for name in sorted(names, key=lambda name: not name.endswith(".json")):
            yield path_of(trial_id, f"{folder}/{name}")
