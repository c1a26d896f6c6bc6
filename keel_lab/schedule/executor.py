"""The seam between the runner and whatever runs trials: Ray, this process, later anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from keel_lab.detect.thresholds import Thresholds
from keel_lab.result import Failure, TrialResult
from keel_lab.trial import Trial


@dataclass(frozen=True)
class Task:
    """One attempt at a trial.

    Attributes:
        storage: URI or path of the storage root.
        thresholds: what the run is watched under.
        attempt: 1 for the first.
        learn_by: see `keel_lab.detect.watch.Watch`.
        keep: steps after which a checkpoint is kept for forks to start from.
        seconds: that this attempt may take; None for no bound.
        rungs: how many times on its way the run says its loss, see `keel_lab.search.rungs`; 0 for never.
        sample_every: seconds between two samples of the machine's load, see `machine_load`; None for none.
    """

    trial: Trial
    thresholds: Thresholds
    storage: str
    attempt: int = 1
    learn_by: int | None = None
    keep: tuple[int, ...] = ()
    seconds: float | None = None
    rungs: int = 0
    sample_every: float | None = None


@dataclass(frozen=True)
class Finished:
    """An attempt that ended: exactly one of `result` and `failure` is set.

    Attributes:
        node: the place it ran at, as `Executor.avoid` takes it; "" if unknown.
    """

    task: Task
    result: TrialResult | None = None
    failure: Failure | None = None
    node: str = ""


@dataclass(frozen=True)
class Progress:
    """A small batch of live news from one running trial.

    Attributes:
        state: the detector's word now: `healthy`, `suspect`, `diverged`, ...
        info: `host`, `pid`, on Ray `node`; now and then a `note`, a sentence for the user.
        points: some of the steps since the last batch: (step, Unix milliseconds, metric -> finite value).
    """

    trial_id: str
    step: int
    loss: float
    state: str
    points: Sequence[tuple[int, int, Mapping[str, float]]] = field(default_factory=tuple)
    info: Mapping[str, Any] = field(default_factory=dict)


class Executor(Protocol):
    """Runs tasks side by side. One contract suite (tests/contracts) holds for every implementation."""

    @property
    def slots(self) -> int:
        """How many tasks with the resources it was opened for run at once."""

    def preflight(self, trials: Sequence[Trial]) -> Sequence[str]:
        """Lets each trial's trainer check it where trials run; returns one sentence per problem found."""

    def submit(self, task: Task) -> None:
        """Queues a task. Never blocks on its completion.

        Raises:
            UsageError: if no place can ever have the resources the trial asks for.
        """

    def next_done(self, timeout: float) -> Finished | None:
        """The next ended attempt in order of completion, or None after `timeout` seconds."""

    def progress(self) -> Sequence[Progress]:
        """Live news since the last call."""

    def listen(self, hear: Callable[[Progress], Iterable[str]]) -> None:
        """Shows live news to `hear`, which returns the ids of trials that are to stop.

        They are asked as all are by `request_stop`, and come back as stopped unless they end first.
        """

    def request_stop(self) -> None:
        """Asks running tasks to checkpoint and stop (outcome `stopped`); queued ones come back as stopped too.

        Only sets a flag, so that a signal handler may call it; the next `next_done` or `progress` passes it on.
        """

    def avoid(self, node: str) -> bool:
        """Starts no more tasks at a place, unless there is no other one for them; says whether there is."""

    def close(self, *, now: bool = False) -> None:
        """Frees everything; with `now`, running tasks are killed."""
