"""A sweep's experiment: found, made or brought back, and described as a reader should find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from keel_lab.track.destination import relative_url, run_url
from keel_lab.track.views import CURVES, MEANS, view_tags

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.tracking import MlflowClient

Describe = Callable[[Mapping[str, str]], str]  # links -> the experiment's note
KIND = "custom_model_development"  # without it the pages are those for language-model traces


def open_experiment(client: MlflowClient, name: str, artifacts: str | None) -> Experiment:
    """The experiment of that name, which is made if there is none, and restored if it was deleted.

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
    return found


def describe(client: MlflowClient, experiment: Experiment, note: Describe, summary: str | None) -> None:
    """Sets what differs of the experiment's note, kind and views.

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
    wanted = {"mlflow.note.content": note(links), "mlflow.experimentKind": KIND, **view_tags()}
    for tag, value in wanted.items():
        if experiment.tags.get(tag) != value:
            client.set_experiment_tag(key, tag, value)
            experiment.tags[tag] = value
