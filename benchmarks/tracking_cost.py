"""What tracking costs on SQLite: the runner's thread, the writer's thread, and a client that logs every step itself.

    python benchmarks/tracking_cost.py [trials] [steps]

Everything is measured in this one process on equal curves of five metrics; read the ratios, not the seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.points import step_values
from keel_lab.trial import Trial

VERDICT = Verdict(Status.HEALTHY, last_good_lr=0.1, censored=True, learned=True)
DATA = {"unigram_entropy": 3.0}


class MemoryCursor:
    """A cursor that costs nothing."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def load(self) -> dict[str, Any]:
        """What was last saved."""
        return dict(self.state)

    def save(self, state: dict[str, Any]) -> None:
        """Keeps the state."""
        self.state = state


class Sweep:
    """Trials that differ by their seed."""

    def __init__(self, name: str, trials: int, steps: int) -> None:
        self.name, self.spec = name, {"name": name}
        self.trials = tuple(_planned(seed, steps) for seed in range(trials))


def _planned(seed: int, steps: int) -> PlannedTrial:
    schedule = RampSchedule(steps=steps)
    trial = Trial(
        architecture="pre_ln",
        options={},
        blocks=16,
        model=ModelSettings(),
        data=None,
        train=TrainSettings(),
        schedule=schedule,
        init_seed=seed,
        data_seed=seed,
    )
    return PlannedTrial(trial, Cell("pre_ln", 16), {"seed": seed}, 1)


def curve_of(planned: PlannedTrial) -> Curve:
    """A curve with every metric at every step."""
    curve = Curve()
    for step in range(1, planned.trial.schedule.steps + 1):
        curve.append(Step(step, 5.0 - step * 1e-4, lr_at(planned.trial.schedule, step), 3.1, 1.0), 0.01)
    return curve


def main() -> None:
    """Prints the costs."""
    trials, steps = [int(word) for word in [*sys.argv[1:], "20", "600"][:2]] if len(sys.argv) > 2 else [20, 600]
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{folder}/mlflow.db"
        begin = time.perf_counter()
        MlflowTracker(Sweep("opening", 0, steps), folder, uri, MemoryCursor()).close()
        once = time.perf_counter() - begin
        ours = _recorder(Sweep("recorder", trials, steps), folder, uri)
        live = _live(Sweep("live", 1, steps), folder, uri)
        naive = _naive(Sweep("naive", 1, steps), Path(folder), uri)
    print(f"writer's thread, once: import MLflow, create the database             {once:8.2f} s")
    print(f"runner's thread, a trial: record()                                    {ours['call'] * 1e3:8.2f} ms")
    print(f"runner's thread, a step:  live()                                      {live['call'] * 1e6:8.2f} us")
    print(f"writer's thread, a trial: run, params, points, artifacts              {ours['trial'] * 1e3:8.1f} ms")
    print(
        f"writer's thread, a step of such a trial                               {ours['trial'] / steps * 1e3:8.3f} ms"
    )
    print(f"a client that logs each step itself: log_metrics, a step              {naive * 1e3:8.3f} ms")
    print(
        f"ratio of the last two                                                 {naive / ours['trial'] * steps:8.1f} x"
    )


def _recorder(sweep: Sweep, folder: str, uri: str) -> dict[str, float]:
    tracker = MlflowTracker(sweep, folder, uri, MemoryCursor(), patience=600)
    told = [(planned, _result(planned), curve_of(planned)) for planned in sweep.trials]
    begin = time.perf_counter()
    for planned, result, curve in told:
        tracker.record(planned, result, VERDICT, curve)
    called = time.perf_counter() - begin
    assert tracker.close() == ()
    return {"call": called / len(told), "trial": (time.perf_counter() - begin) / len(told)}


def _live(sweep: Sweep, folder: str, uri: str) -> dict[str, float]:
    tracker = MlflowTracker(sweep, folder, uri, MemoryCursor(), patience=600)
    (planned,) = sweep.trials
    news = [
        [Progress(planned.trial.id, step.step, step.loss, "healthy", [(step.step, step.step, {"loss": step.loss})])]
        for step in curve_of(planned)
    ]
    tracker.started(planned)
    begin = time.perf_counter()
    for item in news:
        tracker.live(item)
    called = time.perf_counter() - begin
    assert tracker.close() == ()
    return {"call": called / len(news)}


def _naive(sweep: Sweep, folder: Path, uri: str) -> float:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    run = client.create_run(client.create_experiment(sweep.name, artifact_location=(folder / "naive").as_uri()))
    curve = curve_of(sweep.trials[0])
    begin = time.perf_counter()
    for step in curve:
        metrics = [Metric(key, value, step.step, step.step) for key, value in step_values(step, 3.0).items()]
        client.log_batch(run.info.run_id, metrics=metrics, synchronous=True)
    return (time.perf_counter() - begin) / len(curve)


def _result(planned: PlannedTrial) -> TrialResult:
    execution = {"started_at": time.time() - 6, "finished_at": time.time()}
    steps = planned.trial.schedule.steps
    return TrialResult(planned.trial.id, Outcome.COMPLETED, steps, VERDICT, {}, {}, DATA, execution)


if __name__ == "__main__":
    main()
