"""System metrics of a running trial, on request: what MLflow's own monitors measure, under the names its page knows.

Asked for as in MLflow, by MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true in the environment of the workers, every
MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL seconds. They are of the whole machine, and live only: storage has none of them.
"""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import Any

from keel_lab.track.writer import import_mlflow

SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
INTERVAL = "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
FOLDER = "system/"

logger = logging.getLogger(__name__)


def wanted() -> bool:
    """Whether the environment asks for them."""
    return os.environ.get(SWITCH, "").strip().lower() in ("true", "1")


def asked_for(now: float) -> MachineLoad | None:
    """The sampler if the environment asks for it; None, which is logged, if it cannot be had: training goes on."""
    if not wanted():
        return None
    try:
        return MachineLoad(now)
    except Exception as error:  # noqa: BLE001 - whatever MLflow or the machine lack, the trial needs none of it
        logger.warning("no system metrics, though %s asks for them: %s", SWITCH, error)
        return None


class MachineLoad:
    """Samples the machine when a sample is due: a millisecond each, and MLflow's import once a process.

    Args:
        now: the clock of `sample`, seconds.
    """

    def __init__(self, now: float) -> None:
        import_mlflow()
        monitoring: Any = import_module("mlflow.system_metrics.system_metrics_monitor")  # which has no types
        self._monitor = monitoring.SystemMetricsMonitor(run_id="", tracking_uri="")  # not started: we ask and deliver
        self._every = float(os.environ.get(INTERVAL) or self._monitor.sampling_interval)
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
