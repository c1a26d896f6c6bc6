"""The sweep in MLflow: one writer thread beside the driver, which alone talks to the server and alone imports MLflow.

MLflow is a mirror: what is in storage and not in the delivery cursor is still to be delivered, by this driver or the
next one. So a server that is away stops nothing and loses nothing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from keel_lab.architecture import CorpusFacts
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.provenance import provenance
from keel_lab.spec.writing import to_yaml
from keel_lab.track.dataset import dataset_of
from keel_lab.track.destination import (
    artifact_location,
    checked_uri,
    experiment_url,
    object_store_endpoint,
    shown,
    ui_command,
)
from keel_lab.track.fields import execution_tags
from keel_lab.track.mirror import Mirror
from keel_lab.track.note import experiment_note
from keel_lab.track.outbox import Outbox
from keel_lab.track.reason import NO_ANSWER
from keel_lab.track.record import Record
from keel_lab.track.tracker import CurveSource
from keel_lab.track.writer import Cursor, Writer

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

ENDPOINT = "MLFLOW_S3_ENDPOINT_URL"
GRACE_AWAY = 5.0  # seconds that `close` gives a server which is known to be away


Stored = tuple[TrialResult, Verdict, Curve] | tuple[TrialResult, Verdict, Curve, Verdict | None]


class Sweep(Protocol):
    """What is mirrored of a stored sweep."""

    @property
    def name(self) -> str:
        """The experiment's name."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The resolved sweep file."""

    @property
    def trials(self) -> Sequence[PlannedTrial]:
        """Its trials, in any order."""

    @property
    def data(self) -> CorpusFacts | None:
        """What it trains on, where the trainer says."""


class MlflowTracker:
    """See `Tracker`. Runs its thread from construction to `close`; no method waits for the server but `close`.

    Args:
        sweep: the stored sweep.
        root: path or URI of the storage root; a database's artifacts go under it.
        uri: as from `destination.tracking_uri`.
        cursor: see `Cursor`.
        patience: seconds that `close` waits at most while the server answers.
        grace: seconds without a sign of life after which `close` gives up.

    Raises:
        UsageError: if MLflow could not write to such a URI.
        StorageError: if the cursor cannot be read.
    """

    def __init__(
        self, sweep: Sweep, root: str, uri: str, cursor: Cursor, *, patience: float = 60.0, grace: float = 15.0
    ) -> None:
        self.uri = checked_uri(uri)
        self._name = sweep.name
        self._planned = {planned.trial.id: planned for planned in sweep.trials}
        self._sweep_yaml = to_yaml(sweep.spec.get("document", sweep.spec))
        self._patience, self._grace = patience, grace
        self._outbox = Outbox()
        self._writer = Writer(self._outbox, self._planned, self._opener(sweep, root), cursor, self.uri)
        self._writer.start()

    def _opener(self, sweep: Sweep, root: str) -> Callable[[str], Mirror]:
        question, place = str(sweep.spec.get("question") or ""), shown(root)

        def note(links: Mapping[str, str]) -> str:
            return experiment_note(question, self._sweep_yaml, links, place)

        def datasets(planned: PlannedTrial) -> Sequence[DatasetInput]:
            return dataset_of(planned, sweep.data, place)

        artifacts = artifact_location(self.uri, root)
        if artifacts is not None and (endpoint := object_store_endpoint(root)):
            os.environ.setdefault(ENDPOINT, endpoint)  # as MLflow's client is told where the storage's S3 is
        return lambda origin: Mirror(self._name, note, self.uri, artifacts, origin, datasets)

    def started(self, planned: PlannedTrial) -> None:
        """See `Tracker.started`."""
        self._planned[planned.trial.id] = planned
        self._outbox.put_start(planned.trial.id)

    def live(self, news: Sequence[Progress]) -> None:
        """See `Tracker.live`."""
        for progress in news:
            if progress.points and progress.trial_id in self._planned:
                self._outbox.put_live(progress.trial_id, progress.points)

    def record(
        self,
        planned: PlannedTrial,
        result: TrialResult,
        verdict: Verdict,
        curve: CurveSource,
        beside: Verdict | None = None,
    ) -> None:
        """See `Tracker.record`. A new judgement replaces the run, because params cannot change; `beside` is in tags."""
        self._planned[planned.trial.id] = planned
        self._outbox.put_record(planned.trial.id, Record(planned, result, verdict, curve, beside))

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Tracker.failed`."""
        self._planned[planned.trial.id] = planned
        self._outbox.put_fail(planned.trial.id, failure)

    def deliver_missing(self, load: Callable[[str], Stored], done: Iterable[str]) -> None:
        """Delivers what earlier drivers could not, and lets long outages be caught up from storage.

        Args:
            load: reads a trial back by id, as `record` takes it; called in the writer's thread.
            done: ids of the sweep's trials in storage; those in the cursor are not read.
        """

        def read(trial_id: str) -> Record:
            return Record(self._planned[trial_id], *load(trial_id))

        self._outbox.put_catch_up(read, done)

    def summary(self, report: str, figures: Sequence[Path], facts: Mapping[str, float]) -> None:
        """See `Tracker.summary`. The figures are read at once."""
        files = {"report.md": report.encode(), "sweep.yaml": self._sweep_yaml.encode()}
        files |= {figure.name: figure.read_bytes() for figure in figures}
        self._outbox.put_summary(files, dict(facts), execution_tags(provenance()))

    def where(self) -> str:
        """See `Tracker.where`."""
        command = ui_command(self.uri)
        url = experiment_url(self.uri, self._writer.experiment_id) if self._writer.experiment_id else shown(self.uri)
        if command is None:
            return f"MLflow: {url}"
        return f"MLflow: keel-lab ui {self._name} shows it; without keel-lab: {command}, then {url}"

    def close(self) -> Sequence[str]:
        """See `Tracker.close`. Waits up to `patience` while the server answers and `grace` while it does not."""
        self._outbox.close()
        deadline = time.monotonic() + self._patience
        while self._writer.is_alive() and time.monotonic() < min(deadline, self._silent_until()):
            self._writer.join(0.05)
        return tuple(self._sentences())

    def _silent_until(self) -> float:
        """From when on silence means that nobody is there; never for a file, nor while MLflow is being imported."""
        if self._outbox.away not in (None, NO_ANSWER):
            return self._outbox.news + min(self._grace, GRACE_AWAY)
        busy = self.uri.startswith("sqlite") or not self._writer.imported
        return math.inf if busy else self._outbox.news + self._grace

    def _sentences(self) -> Iterable[str]:
        trials, summary = self._outbox.left()
        what = [f"{trials} run{'s' if trials > 1 else ''}"] if trials else []
        what += ["the summary"] if summary else []
        if what:
            why = self._outbox.away or next(iter(self._outbox.refused.values()), NO_ANSWER)
            verb = "was" if trials <= 1 and len(what) == 1 else "were"
            server = f" --tracking {shown(self.uri)}" if ui_command(self.uri) is None else ""
            yield (
                f"{' and '.join(what)} {verb} not delivered to {shown(self.uri)}: {why}; "
                f"`keel-lab sync {self._name}{server}` delivers {'it' if verb == 'was' else 'them'}"
            )
        if self._writer.cursor_error:
            yield (
                f"what was delivered to {shown(self.uri)} could not be noted in storage: {self._writer.cursor_error}; "
                "the next run delivers it again, which changes nothing"
            )
