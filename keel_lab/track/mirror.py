"""One sweep's experiment on one MLflow store, as it should look; calls are synchronous and let MLflow's errors out.

Nothing here is remembered that the store does not know: after any error the mirror is thrown away and opened again, and
reads back which runs and which points are there, so that nothing is written twice.
"""

from __future__ import annotations

import getpass
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keel_lab.curve import Curve
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, Outcome
from keel_lab.track import fields, points
from keel_lab.track.destination import shown
from keel_lab.track.experiment import Describe, describe, open_experiment
from keel_lab.track.mirrored_run import MirroredRun
from keel_lab.track.nonfinite import nonfinite_tags
from keel_lab.track.note import NOTE, summary_note
from keel_lab.track.record import Clock, Point, Record

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Run

    Datasets = Callable[[PlannedTrial], Sequence[DatasetInput]]

BATCH = 1000  # MLflow's limit of metrics a request; params and tags, limited to 100, go apart
SUMMARY = "summary"
ORIGIN = "keel_lab.origin"  # tag: which storage wrote a run, for servers that many share

STATUS = {
    Outcome.COMPLETED: "FINISHED",
    Outcome.DIVERGED: "FINISHED",  # a result, not a failure
    Outcome.FAILED: "FAILED",
    Outcome.STOPPED: "KILLED",
}


class Mirror:
    """An open experiment. Opening it creates or migrates nothing but the experiment (and a new SQLite file).

    Attributes:
        experiment_id: as in the UI's addresses.
        target: names the store and this very experiment; another one means that nothing was delivered yet.
    """

    def __init__(
        self, name: str, note: Describe, uri: str, artifacts: str | None, origin: str, datasets: Datasets
    ) -> None:
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._origin, self._note, self._datasets = origin, note, datasets
        self._experiment = open_experiment(self._client, name, artifacts)
        self.experiment_id = str(self._experiment.experiment_id)
        self.target = f"{shown(uri)}#{self.experiment_id}@{self._experiment.creation_time}"
        self._known = {run.data.tags.get("trial_id", SUMMARY): run.info.run_id for run in self._own_runs()}
        self._runs: dict[str, MirroredRun] = {}
        describe(self._client, self._experiment, note, self._known.get(SUMMARY))

    def _own_runs(self) -> Iterable[Run]:
        """Runs of this store's sweep; a sweep of equal name from another storage root keeps its own."""
        token: str | None = None
        while True:
            page = self._client.search_runs(
                [self.experiment_id], f"tags.`{ORIGIN}` = '{self._origin}'", max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def start(self, planned: PlannedTrial) -> None:
        """The trial's run, new or found again, is RUNNING."""
        known = planned.trial.id in self._known
        run = self._run(planned, fields.identity(planned), {}, _now())
        if known:
            self._client.update_run(run.id, status="RUNNING")

    def live(self, planned: PlannedTrial, news: Sequence[Point], clock: Clock) -> None:
        """Adds live points that the run lacks; `clock` keeps the time of each step that was sent."""
        run = self._run(planned, fields.identity(planned), {}, _now())
        every = points.stride(planned.trial)
        batch = []
        for step, milliseconds, values in news:
            for key, value in points.chart_values(values).items():
                if run.lacks(key, step, every):
                    run.add(key, step)
                    batch.append((key, value, clock.setdefault(step, milliseconds), step))
        self._write(run, batch)

    def record(self, record: Record, clock: Clock) -> None:
        """The whole truth about a trial: missing points, params, final metrics, tags, artifacts, status and times."""
        planned, result = record.planned, record.result
        curve = record.curve if isinstance(record.curve, Curve) else record.curve()
        stopped = result.outcome is Outcome.STOPPED
        params, finals = fields.identity(planned), {}
        if not stopped:
            params |= fields.conclusion(planned, result, record.verdict)
            finals = fields.finals(planned, result, record.verdict, curve)
        end = _milliseconds(result.execution.get("finished_at")) or _now()
        start = min(_milliseconds(result.execution.get("started_at")) or end, end)
        run = self._run(planned, params, finals, start)
        batch = self._missing(run, record, curve, clock, start, end)
        batch += [(key, value, end, 0) for key, value in finals.items() if key not in run.latest]
        tags = {"outcome": "stopped"} if stopped else fields.final_tags(planned, result, record.verdict, record.beside)
        tags |= nonfinite_tags(curve, result.metrics)
        new_params = {key: value for key, value in params.items() if key not in run.params}
        self._write(run, batch, new_params, run.without_foreign_note(tags, planned.name))
        run.params |= params
        run.latest |= finals
        if not stopped:
            told = {**result.to_json(), "verdict": record.verdict.to_json()}
            told |= {} if record.beside is None else {"beside_siblings": record.beside.to_json()}
            evidence = json.dumps(fields.json_ready(told), indent=1)
            self._artifacts(run, {"curve.parquet": curve.to_parquet(), "evidence.json": evidence.encode()})
        self._client.set_terminated(run.id, STATUS[result.outcome], end_time=end)

    def _missing(
        self, run: MirroredRun, record: Record, curve: Curve, clock: Clock, start: int, end: int
    ) -> list[tuple[str, float, int, int]]:
        verdict = record.verdict
        every = points.stride(record.planned.trial)
        keep = {verdict.onset_step, curve.steps[-1].step if len(curve) else None}
        moments = points.times(curve, start, end)
        batch = []
        for index in points.thinned(curve, every, keep):
            step = curve.steps[index]
            for key, value in points.step_values(step, record.result.data.get("unigram_entropy")).items():
                if run.lacks(key, step.step, 1 if step.step in keep else every):
                    run.add(key, step.step)
                    batch.append((key, value, clock.get(step.step, moments[index]), step.step))
        return batch

    def fail(self, planned: PlannedTrial, failure: Failure) -> None:
        """The trial's retries are used up; a later retry goes on in the same run."""
        run = self._run(planned, fields.identity(planned), {}, at := _milliseconds(failure.at) or _now())
        self._write(run, [], tags=run.without_foreign_note(fields.failure_tags(planned, failure), planned.name))
        self._client.set_terminated(run.id, "FAILED", end_time=at)

    def kill(self, planned: PlannedTrial) -> None:
        """A run that was started and did not come back."""
        if run_id := self._known.get(planned.trial.id):
            self._client.set_terminated(run_id, "KILLED")

    def summary(self, files: Mapping[str, bytes], facts: Mapping[str, float], tags: Mapping[str, str]) -> None:
        """The sweep's one summary run: report and figures as artifacts, facts as metrics."""
        run = self._summary_run()
        now = _now()
        finite = {key: fields.capped(key, value) for key, value in facts.items() if math.isfinite(value)}
        batch = [(key, value, now, 0) for key, value in finite.items() if run.latest.get(key) != value]
        self._write(run, batch, tags={**tags, NOTE: summary_note(files["report.md"].decode())})
        run.latest |= finite
        self._artifacts(run, files)
        self._client.set_terminated(run.id, "FINISHED")
        describe(self._client, self._experiment, self._note, run.id)

    def _summary_run(self) -> MirroredRun:
        if SUMMARY not in self._runs:
            run_id = self._known.get(SUMMARY)
            self._runs[SUMMARY] = self._read(run_id) if run_id else self._create(SUMMARY, {"kind": SUMMARY}, _now())
        return self._runs[SUMMARY]

    def _run(
        self, planned: PlannedTrial, params: Mapping[str, str], finals: Mapping[str, float], start: int
    ) -> MirroredRun:
        """The trial's run; a run that says otherwise (params cannot change) is put into MLflow's trash and replaced."""
        key = planned.trial.id
        run = self._runs.get(key)
        if run is None and (run_id := self._known.get(key)):
            run = self._read(run_id)
        kept: dict[str, str] = {}
        if run is not None and run.contradicts(params, finals):
            kept = self._client.get_run(run.id).data.tags
            self._client.delete_run(run.id)
            run = None
        if run is None:
            run, known = self._create(planned.name, {**kept, **fields.tags(planned)}, start), fields.identity(planned)
            run.note = kept.get(NOTE, "")
            self._write(run, [], known)
            run.params |= known
        if not run.has_dataset:
            if datasets := self._datasets(planned):
                self._client.log_inputs(run.id, datasets)
            run.has_dataset = True
        self._runs[key] = run
        self._known[key] = run.id
        return run

    def _create(self, name: str, tags: Mapping[str, str], start: int) -> MirroredRun:
        by = {ORIGIN: self._origin, "mlflow.user": getpass.getuser(), "mlflow.source.name": "keel-lab"}
        everything = {**tags, **by, "mlflow.runName": name}
        created = self._client.create_run(self.experiment_id, start_time=start, tags=everything, run_name=name)
        return MirroredRun(created.info.run_id)

    def _read(self, run_id: str) -> MirroredRun:
        found = self._client.get_run(run_id)
        data = found.data
        run = MirroredRun(run_id, dict(data.params), dict(data.metrics), note=data.tags.get(NOTE, ""))
        run.has_dataset = bool(found.inputs and found.inputs.dataset_inputs)
        for key in data.metrics:
            if not key.startswith(points.ONCE):
                run.steps[key] = sorted(metric.step for metric in self._client.get_metric_history(run_id, key))
        return run

    def _write(
        self,
        run: MirroredRun,
        metrics: Sequence[tuple[str, float, int, int]],
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        for first in range(0, len(metrics), BATCH):
            chunk = [Metric(key, value, moment, step) for key, value, moment, step in metrics[first : first + BATCH]]
            self._client.log_batch(run.id, metrics=chunk, synchronous=True)
        if params or tags:  # after the points: a run that says how it ended has its whole curve
            said = [Param(key, value) for key, value in (params or {}).items()]
            marked = [RunTag(key, value) for key, value in (tags or {}).items()]
            self._client.log_batch(run.id, params=said, tags=marked, synchronous=True)

    def _artifacts(self, run: MirroredRun, files: Mapping[str, bytes]) -> None:
        with tempfile.TemporaryDirectory(prefix="keel-lab-") as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            self._client.log_artifacts(run.id, folder)


def _now() -> int:
    return round(time.time() * 1000)


def _milliseconds(seconds: object) -> int | None:
    return round(seconds * 1000) if isinstance(seconds, int | float) else None
