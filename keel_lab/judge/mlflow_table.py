"""An MLflow run as a table: the whole curve where keel_lab stored it with the run, else its metrics by step.

Only this module imports MLflow, and only for run ids.
"""

from __future__ import annotations

import logging
import math
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keel_lab.errors import UsageError
from keel_lab.judge.columns import Columns, needed
from keel_lab.judge.table import Table, read_table
from keel_lab.track.destination import shown
from keel_lab.track.reason import reason
from keel_lab.track.writer import ENVIRONMENT

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_RUN_ID = re.compile(r"(?:runs:/)?([0-9a-f]{32})")
_INFINITE = 1.7e308  # MLflow stores Inf as the largest double
_CURVE = "curve.parquet"


def run_id(text: str) -> str | None:
    """The id in `ID` or `runs:/ID`; None if it is none."""
    found = _RUN_ID.fullmatch(text)
    return found[1] if found else None


def read_run(run: str, source: str, uri: str | None, columns: Columns) -> Table:
    """Reads a run.

    Args:
        run: its id.
        source: how messages name it.
        uri: tracking URI, as from `destination.tracking_uri`.
        columns: the loss metric, if it was named.

    Raises:
        UsageError: if there is no such store or run, or the store does not answer.
    """
    if uri is None:
        raise UsageError(f"{source}: no tracking URI is known to look the run up in; give --tracking URI")
    path = Path(uri.split("://", 1)[1][1:]) if uri.startswith("sqlite") else None
    if path is not None and not path.exists():
        raise UsageError(f"{source}: there is no MLflow database {path}; give --tracking URI or --storage URI")
    client = _client(uri)
    try:
        return _table(client, client.get_run(run), source, columns)
    except UsageError:
        raise
    except Exception as error:  # MLflow and its drivers raise anything; said in one sentence
        gone = getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
        why = "there is no such run" if gone else f"MLflow does not answer: {reason(error, uri)}"
        raise UsageError(f"{source}: {why} in {shown(uri)}") from error


def _client(uri: str) -> MlflowClient:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _table(client: MlflowClient, run: Run, source: str, columns: Columns) -> Table:
    ours = "keel_lab.trial_id" in run.data.tags and columns == Columns()
    if ours and any(found.path == _CURVE for found in client.list_artifacts(run.info.run_id)):
        with tempfile.TemporaryDirectory(prefix="keel-lab-") as folder:
            return read_table(Path(client.download_artifacts(run.info.run_id, _CURVE, folder)), source)
    names = sorted(run.data.metrics)
    loss = needed(Table(source, names, lambda name: []), "loss", columns.loss)
    points = client.get_metric_history(run.info.run_id, loss)
    points = sorted(points, key=lambda point: (point.timestamp, point.step))
    steps = [point.step for point in points]
    columns_read: dict[str, Sequence[Any]] = {loss: [_value(point.value) for point in points], "step": steps}

    def load(name: str) -> Sequence[Any]:
        if name not in columns_read:
            history = sorted(client.get_metric_history(run.info.run_id, name), key=lambda point: point.timestamp)
            by_step = {point.step: _value(point.value) for point in history}
            columns_read[name] = [by_step.get(step) for step in steps]
        return columns_read[name]

    return Table(source, ["step", *(name for name in names if name != "step")], load, lambda row: f"step {steps[row]}")


def _value(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) > _INFINITE else value
