"""A sweep's experiment: found, made or brought back, and described as a reader should find it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from keel_lab.track.destination import relative_url, run_url
from keel_lab.track.note import NOTE
from keel_lab.track.views import CURVES, MEANS, view_tags

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.tracking import MlflowClient

Describe = Callable[[Mapping[str, str]], str]  # links -> the experiment's note
KIND = "custom_model_development"  # without it the pages are those for language-model traces
WRITTEN = "keel_lab.written"  # tag: digests of the note and the views that we wrote last

log = logging.getLogger(__name__)


def open_experiment(client: MlflowClient, name: str, artifacts: str | None) -> Experiment:
    """The experiment of that name, which is made if there is none, and restored if it was deleted, which is said.

    Args:
        client: of the store.
        name: the sweep's.
        artifacts: where a new one keeps its artifacts; None leaves it to the server.
    """
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.get_experiment(client.create_experiment(name, artifact_location=artifacts))
    if found.lifecycle_stage == "deleted":  # its name cannot be used again in any other way
        client.restore_experiment(found.experiment_id)
        log.warning("MLflow: experiment %s had been deleted there; it was restored, with the runs that it had", name)
    return found


def describe(client: MlflowClient, experiment: Experiment, note: Describe, summary: str | None) -> None:
    """Sets what differs of the experiment's note, kind and views; what somebody has changed or deleted there stays so.

    Args:
        client: of the store.
        experiment: as `open_experiment` returned it.
        note: makes the note from its links.
        summary: id of the summary run, if there is one.
    """
    key = str(experiment.experiment_id)
    links = {
        "Curves and Max LR": relative_url(key, CURVES),
        "Mean of each architecture": relative_url(key, MEANS),
        **({"Summary: tables, figures, sweep file": run_url(key, summary)} if summary else {}),
    }
    wanted = {NOTE: note(links), "mlflow.experimentKind": KIND, **view_tags()}
    written = _written(experiment)
    ours = {
        tag: value
        for tag, value in wanted.items()
        if tag not in written or _digest(experiment.tags.get(tag, "")) in written[tag]
    }
    # Noted before it is written, beside what is there until then: whoever is killed in between finds either.
    noted = {tag: [*written.get(tag, [])[-1:], digest] for tag, value in ours.items() if (digest := _digest(value))}
    noted = {tag: digests for tag, digests in noted.items() if written.get(tag, [])[-1:] != digests[-1:]}
    for tag, value in {WRITTEN: json.dumps({**written, **noted}, sort_keys=True), **ours}.items():
        if experiment.tags.get(tag) != value:
            client.set_experiment_tag(key, tag, value)
            experiment.tags[tag] = value


def _written(experiment: Experiment) -> dict[str, list[str]]:
    """Empty for an experiment that was described before this was noted: its note and views are taken for ours."""
    try:
        noted = json.loads(experiment.tags.get(WRITTEN, "{}"))
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
