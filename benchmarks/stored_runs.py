"""The table of cell medians from thousands of stored ramps: from our storage, and by mlflow.search_runs with pandas.

Ours are written by `Trials.commit`, as a worker does. MLflow's hold the params, tags and final metrics of a run without
the points of curves, which search_runs does not read; they are inserted in bulk with MLflow's own table models and must
equal in form one that its client wrote. Every reading is a process of its own. Both tables must be equal.

    python benchmarks/stored_runs.py [runs]  # 10000; the second part of benchmarks/tracking.py alone
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.null_trainer import __name__ as trainer
from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.opening import open_sweep
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.provenance import provenance
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track import fields
from trainers.catalogue import CATALOGUE

NAME, SEEDS, STEPS, ROUNDS, CHUNK = "stored", 20, 40, 3, 1000
SWEEP = """schema: 1
name: {name}
question: How long does the table take?
protocol: ramp
trainer: {trainer}
grid: {{architecture: [{architectures}], depth: {{blocks: [{blocks}]}}, seed: [{seeds}]}}
ramp: {{steps: {steps}}}
siblings: {{reference: false}}
"""
OURS = """
import sys, time
from analysis.load import load
import pandas, pyarrow.parquet
begin = time.perf_counter()
frame = load("stored", sys.argv[1])
table = frame.groupby(["architecture", "blocks"])["max_lr"].median()
print(time.perf_counter() - begin, table.to_json(orient="table", double_precision=15))
"""
THEIRS = """
import sys, time
import mlflow, pandas
mlflow.set_tracking_uri(sys.argv[1])
mlflow.get_experiment_by_name("stored")  # opens the database
begin = time.perf_counter()
frame = mlflow.search_runs(experiment_names=["stored"])
frame["blocks"] = frame["params.blocks"].astype(int)
frame["architecture"] = frame["params.architecture"]
table = frame.groupby(["architecture", "blocks"])["metrics.final/max_lr"].median().rename("max_lr")
print(time.perf_counter() - begin, table.to_json(orient="table", double_precision=15))
"""
Told = tuple[PlannedTrial, TrialResult, Curve]


def measure(runs: int, folder: Path, say: Callable[[str], None]) -> None:
    """Stores the runs twice and prints what a table of them takes."""
    root, uri = Root.open(folder / "store"), f"sqlite:///{folder}/stored.db"
    sweep = stored_sweep(runs, folder, root)
    begin = time.perf_counter()
    fill_storage(sweep, root)
    ours = time.perf_counter() - begin
    fill_mlflow(sweep, uri, folder)
    theirs = time.perf_counter() - begin - ours
    count = len(sweep.trials)
    say(f"{count} runs in {count // SEEDS} cells of {SEEDS} seeds")
    say(f"storing them took {ours:.0f} s, in MLflow's tables in bulk {theirs:.0f} s")
    first, _, _ = reading(OURS, str(folder / "store"))
    say(f"keel_lab, the first time (it reads every result and makes its index): {first:.2f} s")
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for _ in range(ROUNDS):
        for who, program, place in (("ours", OURS, str(folder / "store")), ("theirs", THEIRS, uri)):
            seconds, whole, table = reading(program, place)
            found[who].append((seconds, whole))
            found.setdefault(f"{who} table", []).append(table)  # type: ignore[arg-type]
    assert found["ours table"][0] == found["theirs table"][0], "the tables differ"
    report = statistics.median(reported(folder / "store") for _ in range(ROUNDS))
    for number, what in enumerate(("cell medians, after imports", "the same, whole process")):
        mine, others = (statistics.median(one[number] for one in found[who]) for who in ("ours", "theirs"))
        ratio = statistics.median(b[number] / a[number] for a, b in zip(found["ours"], found["theirs"], strict=True))
        say(f"{what}: keel_lab {mine:.2f} s, mlflow.search_runs and pandas {others:.2f} s, {ratio:.1f} times ours")
    say(f"keel-lab report (medians, intervals, ranges, modes; whole command): {report:.2f} s")


def stored_sweep(runs: int, folder: Path, root: Root) -> StoredSweep:
    """A ramp sweep of about so many trials: cells of 20 seeds, ten architectures."""
    depths = max(1, runs // (10 * SEEDS))
    text = SWEEP.format(
        name=NAME,
        trainer=trainer,
        architectures=", ".join(f"null{number}" for number in range(10)),
        blocks=", ".join(str(number + 1) for number in range(depths)),
        seeds=", ".join(map(str, range(SEEDS))),
        steps=STEPS,
    )
    file = folder / "stored.yaml"
    file.write_text(text)
    return Sweeps(root).save(open_sweep(file, [], CATALOGUE).stored())


def told(sweep: StoredSweep) -> Iterator[Told]:
    """What became of each trial: a collapse, earlier for some seeds than for others."""
    thresholds, facts = sweep.thresholds.model_dump(mode="json"), provenance()
    for number, planned in enumerate(sweep.trials):
        schedule, last = planned.trial.schedule, 10 + 7 * number % 23
        curve = Curve()
        for step in range(1, STEPS + 1):
            loss = 5.0 - step / 20 if step <= last else 5.5
            curve.append(Step(step, loss, lr_at(schedule, step), 3.1, 1.0, tokens=256 * step), 0.01)
        evidence = {"rule": "cusum", "sigma": 0.02, "best_level": 5.0 - last / 20, "alarm_step": last + 3}
        lr = lr_at(schedule, last)
        verdict = Verdict(Status.DIVERGED, Mode.COLLAPSE, last + 1, last, lr, learned=True, evidence=evidence)
        execution = {
            **facts, "torch": "2.13.0", "device": "cpu", "threads": 1, "host": "here", "attempt": 1,
            "started_at": 1.76e9 + number, "finished_at": 1.76e9 + number + 5, "seconds_per_step": 0.01,
        }  # fmt: skip
        data = {"unigram_entropy": 3.0, "chance": 5.545}
        yield (
            planned,
            TrialResult(
                planned.trial.id, Outcome.DIVERGED, STEPS, verdict, thresholds, {"val_loss": 5.5}, data, execution
            ),
            curve,
        )


def fill_storage(sweep: StoredSweep, root: Root) -> None:
    """Commits every trial."""
    trials = Trials(root)
    for planned, result, curve in told(sweep):
        trials.put_trial(planned.trial)
        trials.commit(result, curve, synced=False)


def fill_mlflow(sweep: StoredSweep, uri: str, folder: Path) -> None:
    """One run by MLflow's client, the others in bulk."""
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.create_experiment(NAME, artifact_location=(folder / "artifacts").as_uri())
    rows: list[tuple[str, Mapping[str, Any]]] = []
    store = SqlAlchemyStore(uri, (folder / "artifacts").as_uri())
    for number, (planned, result, curve) in enumerate(told(sweep)):
        params = fields.identity(planned) | fields.conclusion(planned, result, result.verdict)
        tags = fields.tags(planned) | fields.final_tags(planned, result, result.verdict)
        tags |= {"mlflow.runName": planned.name, "mlflow.user": "lab", "mlflow.source.name": "keel-lab"}
        metrics = fields.finals(planned, result, result.verdict, curve) | {"train/loss": 5.5, "train/lr": 0.1}
        if number:
            rows += list(_rows(planned.name, experiment, folder, params, tags, metrics))
        else:
            run = client.create_run(experiment, run_name=planned.name, tags=tags)
            said = [Param(key, value) for key, value in params.items()]
            client.log_batch(run.info.run_id, [Metric(key, value, 0, 0) for key, value in metrics.items()], said, [])
            client.log_batch(run.info.run_id, tags=[RunTag(key, value) for key, value in tags.items()])
            client.set_terminated(run.info.run_id)
        if len(rows) > CHUNK * 100:
            _insert(store, rows)
            rows = []
    _insert(store, rows)
    found = client.search_runs([experiment], max_results=2, order_by=["attribute.start_time DESC"])
    forms = [(set(run.data.params), set(run.data.tags), set(run.data.metrics), run.info.status) for run in found]
    assert forms[0] == forms[1], "a run in bulk looks otherwise"


def _rows(
    name: str, experiment: str, folder: Path, params: Mapping[str, str], tags: Mapping[str, str],
    metrics: Mapping[str, float],
) -> Iterator[tuple[str, Mapping[str, Any]]]:  # fmt: skip
    run = uuid.uuid4().hex
    yield "SqlRun", {
        "run_uuid": run, "name": name, "user_id": "lab", "status": "FINISHED", "start_time": 1, "end_time": 5001,
        "lifecycle_stage": "active", "experiment_id": int(experiment), "source_type": "UNKNOWN", "source_name": "",
        "artifact_uri": f"{folder.as_uri()}/artifacts/{run}/artifacts", "source_version": "", "entry_point_name": "",
    }  # fmt: skip
    for key, value in params.items():
        yield "SqlParam", {"run_uuid": run, "key": key, "value": value}
    for key, value in tags.items():
        yield "SqlTag", {"run_uuid": run, "key": key, "value": value}
    for key, number in metrics.items():
        point = {"run_uuid": run, "key": key, "value": number, "timestamp": 0, "step": 0, "is_nan": False}
        yield "SqlMetric", point
        yield "SqlLatestMetric", point


def _insert(store: Any, rows: list[tuple[str, Mapping[str, Any]]]) -> None:
    import sqlalchemy
    from mlflow.store.tracking.dbmodels import models

    with store.engine.begin() as connection:
        for kind in ("SqlRun", "SqlParam", "SqlTag", "SqlMetric", "SqlLatestMetric"):
            of_kind = [row for name, row in rows if name == kind]
            connection.execute(sqlalchemy.insert(getattr(models, kind)), of_kind)


def reading(program: str, place: str) -> tuple[float, float, Any]:
    """Seconds of the reading, of its whole process, and the table."""
    begin = time.perf_counter()
    done = _run([sys.executable, "-c", program, place])
    seconds, _, table = done.partition(" ")
    whole = time.perf_counter() - begin
    rows = {(row["architecture"], row["blocks"]): row["max_lr"] for row in json.loads(table)["data"]}
    return float(seconds), whole, rows


def reported(store: Path) -> float:
    """Seconds of `keel-lab report`."""
    begin, words = time.perf_counter(), ["report", NAME, "--storage", str(store)]
    _run([sys.executable, "-m", "keel_lab", *words])
    return time.perf_counter() - begin


def _run(command: list[str]) -> str:
    clean = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def main() -> None:
    """Prints it."""
    from keel_lab.track.writer import import_mlflow

    import_mlflow()
    with tempfile.TemporaryDirectory(prefix="kl") as name:
        measure(int((*sys.argv[1:], "10000")[0]), Path(name), lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
