"""What `keel-lab sync` does: MLflow gets what it lacks of a stored sweep, whatever the cursor says was delivered.

Every run is compared with the server's, so that a run deleted there comes back, an empty server gets the whole sweep,
and a second call changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from keel_lab.curve import Curve
from keel_lab.detect.verdict import Verdict
from keel_lab.errors import IncompleteError
from keel_lab.plan.siblings import with_forks
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.cell_verdicts import told_worse
from keel_lab.schedule.delivery import DeliveryCursor
from keel_lab.schedule.finishing import Reporting
from keel_lab.schedule.settled import settled_results
from keel_lab.search import best
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.destination import shown
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.usable import refuse_unusable


@dataclass(frozen=True)
class Synced:
    """What is in MLflow now.

    Attributes:
        finished, failed, stopped: runs of trials that have a result, failed, or stopped before their end.
        summary: whether there is a summary; not before a trial has finished.
        undelivered: what could not be delivered, one sentence each.
        where: how to look at it.
    """

    sweep: str
    tracking: str
    finished: int
    failed: int
    stopped: int
    summary: bool
    undelivered: tuple[str, ...]
    where: str

    @property
    def exit_code(self) -> int:
        """0 if all was delivered."""
        return IncompleteError.exit_code if self.undelivered else 0

    def to_json(self) -> str:
        """A JSON object."""
        return json.dumps(asdict(self), indent=2)

    def text(self) -> str:
        """A line; what was not delivered is said elsewhere."""
        counts = {"finished": self.finished, "failed": self.failed, "stopped": self.stopped}
        runs = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no run yet"
        what = f"{runs}{' and the summary' if self.summary else ''}"
        return (
            f"sweep {self.sweep} at {self.tracking}: {what}{'; not all of it was delivered' * bool(self.undelivered)}"
        )


def sync(name: str, root: Root, uri: str, reporting: Callable[[], Reporting]) -> Synced:
    """Delivers a stored sweep to MLflow.

    Args:
        name: of the sweep.
        root: storage.
        uri: as from `track.destination.tracking_uri`.
        reporting: the sweep's report, called if a trial has finished.

    Raises:
        UsageError: if there is no such sweep, another process runs it, which delivers by itself, or MLflow there can
            never be written to as it is.
    """
    sweep = Sweeps(root).load(name)
    refuse_unusable(uri, name)
    with lease.hold(root, name):
        trials = Trials(root)
        results = settled_results(trials, sweep.trials, sweep.thresholds, sweep.siblings)
        sweep = replace(sweep, trials=tuple(with_forks(sweep.trials, results, sweep.siblings)))
        tracker = MlflowTracker(sweep, root.uri, uri, DeliveryCursor(root, name, afresh=True), patience=math.inf)
        tracker.deliver_missing(_reader(results, trials, told_worse(sweep, results, Sweeps(root), root)), list(results))
        failed, stopped = _without_result(sweep, results, root, trials, tracker)
        if results:
            report = reporting()
            diverged = sum(result.outcome is Outcome.DIVERGED for result in results.values())
            facts = {"completed": len(results) - diverged, "diverged": diverged, "failed": failed}
            numbers = {key: float(value) for key, value in facts.items()} | best.facts(sweep)
            tracker.summary(report.markdown(), report.figures(), numbers)
        undelivered = tuple(tracker.close())
        where = tracker.where()
    return Synced(name, shown(uri), len(results), failed, stopped, bool(results), undelivered, where)


def _reader(
    results: dict[str, TrialResult], trials: Trials, beside: Mapping[str, Verdict]
) -> Callable[[str], tuple[TrialResult, Verdict, Curve, Verdict | None]]:
    def load(trial_id: str) -> tuple[TrialResult, Verdict, Curve, Verdict | None]:
        result = results[trial_id]
        return result, result.verdict, trials.curve(trial_id), beside.get(trial_id)

    return load


def _without_result(
    sweep: StoredSweep, results: dict[str, TrialResult], root: Root, trials: Trials, tracker: MlflowTracker
) -> tuple[int, int]:
    """Says of trials that failed that they did, and of those that were begun that they run no more; counts both."""
    failed = stopped = 0
    begun = set(root.list("trials"))
    for planned in sweep.trials:
        trial_id = planned.trial.id
        if trial_id in results or trial_id not in begun:
            continue
        attempts = trials.attempts(trial_id)
        if attempts:
            failed += 1
            tracker.failed(planned, attempts[-1])
        else:
            stopped += 1
            tracker.started(planned)  # `close` tells the server that it did not come back
    return failed, stopped
