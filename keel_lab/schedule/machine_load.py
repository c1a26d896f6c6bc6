"""System metrics of a running trial, on request: what MLflow's own monitors measure, under the names its page knows.

Asked for as in MLflow, by MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true where the sweep is started, every
MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL seconds; the driver tells its workers, wherever they are, with each task. They
are of the worker's whole machine, and live only: storage has none of them.
"""

from __future__ import annotations

import logging
import math
import os
from importlib import import_module
from typing import Any

from keel_lab.errors import UsageError
from keel_lab.track.writer import import_mlflow

SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
INTERVAL = "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
USUAL = 10.0  # seconds, as in MLflow
FOLDER = "system/"

logger = logging.getLogger(__name__)


def wanted_every() -> float | None:
    """Seconds between two samples if the environment asks for them, else None.

    Raises:
        UsageError: if the interval is none.
    """
    if os.environ.get(SWITCH, "").strip().lower() not in ("true", "1"):
        return None
    text = os.environ.get(INTERVAL) or str(USUAL)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{INTERVAL}: found {text!r}; a number of seconds above 0 is needed")
    return seconds


def sampler(every: float | None, now: float) -> MachineLoad | None:
    """What samples; None if nobody asks or, which is logged, if it cannot be had: training goes on."""
    if every is None:
        return None
    try:
        return MachineLoad(every, now)
    except Exception as error:  # noqa: BLE001 - whatever MLflow or the machine lack, the trial needs none of it
        logger.warning("no system metrics, though %s asks for them: %s", SWITCH, error)
        return None


class MachineLoad:
    """Samples the machine when a sample is due: a millisecond each, and MLflow's import once a process.

    Args:
        every: seconds between two samples.
        now: the clock of `sample`, seconds.
    """

    def __init__(self, every: float, now: float) -> None:
        import_mlflow()
        monitoring: Any = import_module("mlflow.system_metrics.system_metrics_monitor")  # which has no types
        # not started: we ask and deliver. An address that is never called; without one MLflow makes a database here
        self._monitor = monitoring.SystemMetricsMonitor(run_id="", tracking_uri="http://127.0.0.1:9")
        self._every = every
        self._due = now

    def sample(self, now: float) -> dict[str, float]:
        """`system/...` metrics, in the units their names say; empty if none is due."""
        if now < self._due:
            return {}
        self._due = now + self._every
        self._monitor.collect_metrics()
        found = {f"{FOLDER}{name}": float(value) for name, value in self._monitor.aggregate_metrics().items()}
        for monitor in self._monitor.monitors:
            monitor.clear_metrics()
        return found
