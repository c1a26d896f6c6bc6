"""Named views of a sweep's experiment: charts and columns as a reader of Max LR wants them, in MLflow's "Views" menu.

MLflow keeps a view as a tag of the experiment, `mlflow.sharedViewState.ID`, and opens it by `viewStateShareKey=ID`. The
format is that of its web pages (3.17); pages that do not know it show all metrics by folder, as without any view.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

TAG = "mlflow.sharedViewState."
CURVES, MEANS = "keel-lab-curves", "keel-lab-means"
NAMES = {CURVES: "keel_lab: curves and Max LR", MEANS: "keel_lab: mean of each architecture"}
TRIALS = 'tags.kind = "trial"'
MADE = 1_764_547_200_000  # Unix milliseconds; a constant, so that setting a view again changes nothing

PARAMS = ("architecture", "blocks", "alpha", "seed", "max_lr", "verdict", "mode", "lr")  # in the order of the columns
METRICS = ("final/best_loss", "val/loss", "cost/seconds_per_step")
AT_LR = {"xAxisKey": "metric", "selectedXAxisMetricKey": "train/log10_lr", "useGlobalXaxisKey": False}


def view_tags() -> dict[str, str]:
    """The experiment's tags that hold the views."""
    states = {CURVES: _state(None), MEANS: _state("architecture")}
    return {
        f"{TAG}{key}": json.dumps(
            {"name": NAMES[key], "createdAt": MADE, "updatedAt": MADE, "state": _packed(json.dumps(state))}
        )
        for key, state in states.items()
    }


def _packed(text: str) -> str:
    """The text as the web pages pack it: an experiment's tag holds 5,000 characters at most."""
    return f"deflate;{base64.b64encode(zlib.compress(text.encode(), 9)).decode()}"


def _state(group: str | None) -> dict[str, Any]:
    columns = [_column("params", name) for name in PARAMS] + [_column("metrics", name) for name in METRICS]
    grouped = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": group}]}
    return {
        "searchFilter": TRIALS,
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "FIRST_20_RUNS",
        "hideEmptyCharts": True,
        "groupBy": grouped if group else None,
        "isAccordionReordered": True,  # the sections stay in this order, and MLflow's own come after them
        "compareRunSections": [_section("curves", "Curves", 2), _section("max-lr", "Max LR and what it depends on", 2)],
        "compareRunCharts": [*_curves(), *([] if group else _readings())],
    }


def _column(kind: str, name: str) -> str:
    return f"{kind}.`{name}`"


def _section(key: str, title: str, columns: int) -> dict[str, Any]:
    return {"uuid": key, "name": title, "display": True, "isReordered": True, "columns": columns, "cardHeight": 360}


def _chart(kind: str, section: str, key: str, title: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    common = {"type": kind, "uuid": key, "metricSectionId": section, "deleted": False, "isGenerated": False}
    return {**common, "displayName": title, "runsCountToCompare": 20, **settings}


def _line(key: str, metric: str, title: str, **settings: Any) -> dict[str, Any]:
    usual = {
        "metricKey": metric,
        "lineSmoothness": 0,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": True,  # else one run that blows up flattens all others
        "range": {},
    }
    return _chart("LINE", "curves", key, title, {**usual, **settings})


def _curves() -> list[dict[str, Any]]:
    return [
        _line("paired-at-lr", "train/paired_loss", "paired loss (nats/token) against log10 LR", **AT_LR),
        _line("paired", "train/paired_loss", "paired loss (nats/token) against step"),
        _line("loss", "train/loss", "loss (nats/token) against step"),
        _line("grad-norm", "diag/grad_norm", "gradient norm before clipping (log scale)", scaleType="log"),
    ]


def _readings() -> list[dict[str, Any]]:
    def axis(kind: str, key: str) -> dict[str, str]:
        return {"key": key, "type": kind}

    parallel = {
        "selectedParams": ["architecture", "blocks", "alpha", "seed"],
        "selectedMetrics": ["final/best_loss", "final/log10_last_good_lr"],
        "showAllRuns": True,
    }
    contour = {
        "xaxis": axis("PARAM", "alpha_value"),
        "yaxis": axis("PARAM", "blocks"),
        "zaxis": axis("METRIC", "final/log10_last_good_lr"),
    }
    scatter = {"xaxis": axis("PARAM", "blocks"), "yaxis": axis("METRIC", "final/log10_last_good_lr")}
    bar = {"metricKey": "final/last_good_lr", "selectedMetricKeys": ["final/last_good_lr"]}
    return [
        _chart("BAR", "max-lr", "max-lr", "Max LR (a censored run: its peak)", bar),
        _chart("PARALLEL", "max-lr", "parallel", "log10 Max LR, best loss and what was varied", parallel),
        _chart("SCATTER", "max-lr", "scatter", "log10 Max LR against blocks", scatter),
        _chart("CONTOUR", "max-lr", "contour", "log10 Max LR over alpha and blocks", contour),
    ]
