"""Three ways to bring a trial's curve to MLflow, for benchmarks/tracking.py: ours, Lightning's and Ray Tune's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.news import News
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.track.fields import identity
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.points import step_values
from keel_lab.trial import Trial

VERDICT = Verdict(Status.HEALTHY, last_good_lr=0.1, censored=True, learned=True)
H1 = 3.0
STEP_SECONDS = 0.01  # how long a step is taken to last where a client batches by time


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

    data = None

    def __init__(self, name: str, trials: int, steps: int) -> None:
        self.name, self.spec = name, {"name": name}
        self.trials = tuple(_planned(seed, steps) for seed in range(trials))


def _planned(seed: int, steps: int) -> PlannedTrial:
    settings: dict[str, Any] = {"model": ModelSettings(), "data": None, "train": TrainSettings()}
    seeds = {"init_seed": seed, "data_seed": seed}
    schedule = RampSchedule(steps=steps)
    trial = Trial(architecture="pre_ln", options={}, blocks=16, schedule=schedule, **settings, **seeds)
    return PlannedTrial(trial, Cell("pre_ln", 16), {"seed": seed}, 1)


def curve_of(planned: PlannedTrial) -> Curve:
    """A curve with every metric at every step."""
    curve = Curve()
    for step in range(1, planned.trial.schedule.steps + 1):
        curve.append(
            Step(step, 5.0 - step * 1e-4, lr_at(planned.trial.schedule, step), 3.1, 1.0, tokens=256 * step),
            STEP_SECONDS,
        )
    return curve


class Client(Protocol):
    """A tracking client; one is made for each sweep. `step` is what the training thread waits for."""

    name: str
    writes: str

    def __init__(self, sweep: Sweep, folder: str, uri: str) -> None: ...

    def start(self, planned: PlannedTrial) -> None: ...  # noqa: D102

    def step(self, step: Step, values: dict[str, float]) -> None: ...  # noqa: D102

    def end(self, planned: PlannedTrial, curve: Curve) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102 - returns when everything is in the database


class Recorder:
    """keel_lab's: the worker's news and the driver's tracker, handed over in this very thread."""

    name = "keel_lab"
    writes = "in batches, from a thread beside the driver; 200 points a metric at most, the whole curve as an artifact"

    def __init__(self, sweep: Sweep, folder: str, uri: str) -> None:
        self._tracker = MlflowTracker(sweep, folder, uri, MemoryCursor(), patience=600)
        self._news: News | None = None

    def start(self, planned: PlannedTrial) -> None:
        """The trial's run."""
        self._tracker.started(planned)
        self._news = News(planned.trial, _Line(self._tracker), 0.0)
        self._news.unigram_entropy = H1

    def step(self, step: Step, values: dict[str, float]) -> None:
        """What `Session.step` does for tracking, at the pace of a step of `STEP_SECONDS`."""
        assert self._news is not None
        self._news.step(step, "healthy", step.step * STEP_SECONDS)

    def end(self, planned: PlannedTrial, curve: Curve) -> None:
        """The trial's record, with its curve, evidence, verdict, tags and final metrics."""
        now, steps = time.time(), planned.trial.schedule.steps
        execution = {"started_at": now - steps * STEP_SECONDS, "finished_at": now}
        data = {"unigram_entropy": H1}
        result = TrialResult(planned.trial.id, Outcome.COMPLETED, steps, VERDICT, {}, {}, data, execution)
        self._tracker.record(planned, result, VERDICT, curve)

    def close(self) -> None:
        """Waits until all is delivered."""
        undelivered = self._tracker.close()
        assert undelivered == (), undelivered


class _Line:
    """A mailbox that ends in the tracker."""

    stop_requested = False

    def __init__(self, tracker: MlflowTracker) -> None:
        self._tracker = tracker

    def announce(self, news: Progress) -> bool:
        """See `Mailbox.announce`."""
        return False

    def post(self, news: Progress) -> bool:
        """See `Mailbox.post`."""
        self._tracker.live([news])
        return True


class Lightning:
    """Lightning's MLFlowLogger as it comes: a request a step."""

    name = "Lightning MLFlowLogger"
    writes = "synchronously, a request a step"
    synchronous: bool | None = None

    def __init__(self, sweep: Sweep, folder: str, uri: str) -> None:
        self._name, self._uri = sweep.name, uri
        self._logger: Any = None
        self._made: list[Any] = []

    def start(self, planned: PlannedTrial) -> None:
        """A logger makes its run when its params come."""
        from lightning.pytorch.loggers import MLFlowLogger

        self._logger = MLFlowLogger(self._name, planned.name, self._uri, synchronous=self.synchronous)
        self._made.append(self._logger)
        self._logger.log_hyperparams(identity(planned))

    def step(self, step: Step, values: dict[str, float]) -> None:
        """As `self.log_dict` at every step."""
        self._logger.log_metrics(values, step.step)

    def end(self, planned: PlannedTrial, curve: Curve) -> None:
        """As at the end of a fit."""
        self._logger.finalize("success")

    def close(self) -> None:
        """Nothing waits."""


class LightningAsync(Lightning):
    """The same with MLflow's own queue and threads."""

    name = "the same, synchronous=False"
    writes = "from MLflow's threads, in batches"
    synchronous = False

    def close(self) -> None:
        """Waits for MLflow's queues."""
        for logger in self._made:
            logger.experiment._tracking_client.store.flush_async_logging()


class Tune:
    """Ray Tune's MLflowLoggerCallback, called as Tune's driver loop calls it, for each result of a trial."""

    name = "Ray Tune MLflowLoggerCallback"
    writes = "synchronously, a request a value"

    def __init__(self, sweep: Sweep, folder: str, uri: str) -> None:
        from ray.air.integrations.mlflow import MLflowLoggerCallback

        self._callback = MLflowLoggerCallback(tracking_uri=uri, registry_uri=uri, experiment_name=sweep.name)
        self._callback.setup()
        self._trial: Any = None

    def start(self, planned: PlannedTrial) -> None:
        """As when a trial starts."""
        self._trial = _TuneTrial(planned)
        self._callback.log_trial_start(self._trial)

    def step(self, step: Step, values: dict[str, float]) -> None:
        """As when a trial has reported; of the ten values or so that Tune adds itself, this has the one it needs."""
        self._callback.log_trial_result(step.step, self._trial, {**values, "training_iteration": step.step})

    def end(self, planned: PlannedTrial, curve: Curve) -> None:
        """As when a trial ends."""
        self._callback.log_trial_end(self._trial)

    def close(self) -> None:
        """Nothing waits."""


class _TuneTrial:
    """What the callback reads of a trial."""

    def __init__(self, planned: PlannedTrial) -> None:
        self.config, self._name = identity(planned), planned.name

    def __str__(self) -> str:
        return self._name


CLIENTS: Sequence[type[Client]] = (Recorder, Lightning, LightningAsync, Tune)


def values_of(curve: Curve) -> list[dict[str, float]]:
    """The five metrics of each step."""
    return [step_values(step, H1) for step in curve]
