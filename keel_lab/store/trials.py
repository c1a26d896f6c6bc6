"""The trials of a root: immutable training facts, committed by result.json; failures and checkpoints beside them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from keel_lab.curve import Curve
from keel_lab.errors import KeelLabError, NewerSchemaError
from keel_lab.result import SCHEMA, Failure, Outcome, TrialResult
from keel_lab.store import checkpoints
from keel_lab.store.checkpoints import StoredCheckpoint
from keel_lab.store.committed import Files, StoredFile, path_of, read_committed, read_curve, read_result, read_trial
from keel_lab.store.document import DamagedError, dump, parse
from keel_lab.store.index import Index, result_of, shape_of
from keel_lab.store.root import Root
from keel_lab.trial import SCHEMA as TRIAL_SCHEMA
from keel_lab.trial import Trial


class Trials:
    """`trials/ID/` of a storage root. Every method raises `StorageError` if the storage fails."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._index = Index(root)

    def put_trial(self, trial: Trial) -> None:
        """Writes trial.json, if it is not there yet, or empty: what a power cut may leave of it."""
        path = path_of(trial.id, "trial.json")
        stat = self._root.stats([path]).get(path)
        if stat is None or not stat.size:
            content = dump({"id": trial.id, "trial": trial.model_dump(mode="json")}, TRIAL_SCHEMA)
            self._root.write(path, content, synced=False)

    def trial(self, trial_id: str) -> Trial | None:
        """The stored trial; None if there is none or, with a warning, if its file is damaged."""
        return read_trial(self._root, trial_id)

    def result(self, trial_id: str) -> TrialResult | None:
        """The trial's result if it is done: a valid result.json with its whole curve.

        A damaged one is warned of by name and counts as not done.

        Raises:
            NewerSchemaError: if it is of a newer schema.
        """
        committed = read_committed(self._root, trial_id)
        return None if committed is None else committed.result

    def results(self, ids: Iterable[str]) -> dict[str, TrialResult]:
        """The results of those of the trials that are done, through the index; as `result` otherwise."""
        return {trial_id: result_of(row) for trial_id, row in self._index.rows(ids).items()}

    def curve(self, trial_id: str) -> Curve:
        """The whole curve of a trial that is done.

        Raises:
            KeelLabError: if it is not done, or result or curve are damaged.
            NewerSchemaError: if they are of a newer schema.
        """
        try:
            found = read_result(self._root, trial_id)
            if found is not None:
                return read_curve(self._root, trial_id, found[1])
        except DamagedError as error:
            raise KeelLabError(f"{error}; `keel-lab resume` of its sweep runs trial {trial_id} again") from error
        raise KeelLabError(f"trial {trial_id} has no result in {self._root}: it was not run to its end")

    def commit(self, result: TrialResult, curve: Curve, synced: bool = True) -> None:
        """Stores curve and timing, then result.json, which makes the trial done; replaces an older result atomically.

        Args:
            result: what became of the run.
            curve: its curve.
            synced: see `Root.write`; of a run of seconds there is little to lose, and the sync would be half of it.

        Raises:
            ValueError: if the result is not one (stopped or failed), or the curve not its curve.
        """
        if result.outcome not in (Outcome.COMPLETED, Outcome.DIVERGED):
            raise ValueError(f"trial {result.trial_id} was {result.outcome}: only a result is committed")
        if len(curve) != result.steps:
            raise ValueError(f"trial {result.trial_id}: {result.steps} steps, but a curve of {len(curve)}")
        content, timing = curve.to_parquet(), curve.timing_to_parquet()
        suffix = self._unused_suffix(result.trial_id)
        files = Files(
            StoredFile.of(f"curve{suffix}.parquet", content), StoredFile.of(f"timing{suffix}.parquet", timing)
        )
        self._root.write(path_of(result.trial_id, files.curve.name), content, synced=synced)
        self._root.write(path_of(result.trial_id, files.timing.name), timing, synced=synced)
        document = {key: value for key, value in result.to_json().items() if key != "schema"}
        told = dump({**document, "files": files.to_json()}, SCHEMA, indent=None)
        self._root.write(path_of(result.trial_id, "result.json"), told, synced=synced)

    def put_checkpoint(self, trial_id: str, step: int, file: Path, curve: Curve) -> None:
        """Stores a trainer's checkpoint, written after `step` updates, with the curve so far; see `checkpoints.put`."""
        checkpoints.put(self._root, trial_id, step, file, curve)

    def checkpoint(self, trial_id: str, into: Path) -> StoredCheckpoint | None:
        """The last whole checkpoint, its file fetched into the folder `into` if storage is remote."""
        return checkpoints.last(self._root, trial_id, into)

    def keep_checkpoint(self, trial_id: str, step: int, file: Path, curve: Curve) -> None:
        """Stores a checkpoint that stays, beside the last one, for forks to start from."""
        checkpoints.keep(self._root, trial_id, step, file, curve)

    def checkpoint_before(self, trial_id: str, step: int, into: Path) -> StoredCheckpoint | None:
        """The latest checkpoint, kept or last, that was written after at most `step` updates; None if there is none."""
        return checkpoints.before(self._root, trial_id, step, into)

    def checkpoint_step(self, trial_id: str) -> int | None:
        """After how many updates the last checkpoint was written; None if there is none."""
        return checkpoints.last_step(self._root, trial_id)

    def add_attempt(self, trial_id: str, failure: Failure) -> int:
        """Stores a failed attempt, dated now unless it is dated, and returns its number, from 1."""
        number = max(self._attempt_numbers(trial_id), default=0) + 1
        dated = failure if failure.at is not None else replace(failure, at=time.time())
        self._root.write(path_of(trial_id, f"attempts/{number}.json"), dump(dated.to_json(), SCHEMA))
        return number

    def attempts(self, trial_id: str) -> list[Failure]:
        """The failed attempts, oldest first.

        Raises:
            KeelLabError: if a file is damaged; counting it as none would retry without end.
            NewerSchemaError: if a file is of a newer schema.
        """
        return [
            self._attempt(path_of(trial_id, f"attempts/{number}.json")) for number in self._attempt_numbers(trial_id)
        ]

    def forget_attempts(self, trial_id: str) -> int:
        """Deletes the failed attempts, the newest first, and returns how many there were."""
        numbers = self._attempt_numbers(trial_id)
        for number in reversed(numbers):
            self._root.delete(path_of(trial_id, f"attempts/{number}.json"))
        return len(numbers)

    def put_log(self, trial_id: str, text: str) -> None:
        """Stores the log of the trial's last attempt."""
        self._root.write(path_of(trial_id, "log.txt"), text.encode(), synced=False)

    def log(self, trial_id: str) -> str | None:
        """The log of the trial's last attempt, if there is one."""
        try:
            return self._root.read(path_of(trial_id, "log.txt")).decode(errors="replace")
        except FileNotFoundError:
            return None

    def step_costs(self, trials: Iterable[Trial]) -> dict[str, float]:
        """Median seconds a step of the last measured trial of the same shape, for those trials that have one."""
        measured = [row for row in self._index.rows().values() if row.seconds_per_step > 0]
        measured.sort(key=lambda row: -math.inf if math.isnan(row.finished_at) else row.finished_at)
        costs = {row.shape: row.seconds_per_step for row in measured}  # of equal shapes the last stays
        shapes = {trial.id: shape_of(trial) for trial in trials}
        return {trial_id: costs[shape] for trial_id, shape in shapes.items() if shape in costs}

    def _unused_suffix(self, trial_id: str) -> str:
        """'' for a first commit, else the next of '-2', '-3', ... after the curve that the present result names."""
        try:
            found = read_result(self._root, trial_id)
        except NewerSchemaError:
            raise
        except DamagedError:  # reported when it was read; it is about to be replaced
            found = None
        if found is None:
            return ""
        number = found[1].curve.name.removeprefix("curve").removesuffix(".parquet").removeprefix("-") or "1"
        return f"-{int(number) + 1}"

    def _attempt_numbers(self, trial_id: str) -> list[int]:
        names = [name.removesuffix(".json") for name in self._root.list(path_of(trial_id, "attempts"))]
        return sorted(int(name) for name in names if name.isdecimal())

    def _attempt(self, path: str) -> Failure:
        place = f"{self._root}/{path}"
        try:
            return Failure.from_json(parse(self._root.read(path), place, SCHEMA))
        except NewerSchemaError:
            raise
        except ValueError as error:
            raise KeelLabError(f"{place} is damaged: {error}; delete it to forget that attempt") from error
