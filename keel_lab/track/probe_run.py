"""What `keel-lab probe` showed, as one run of the sweep's experiment: table and figures are its artifacts."""

from __future__ import annotations

import getpass
import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keel_lab.schedule.provenance import provenance
from keel_lab.spec.writing import to_yaml
from keel_lab.track.destination import artifact_location, experiment_url, shown
from keel_lab.track.experiment import describe, open_experiment
from keel_lab.track.fields import execution_tags
from keel_lab.track.note import experiment_note, summary_note
from keel_lab.track.reason import reason
from keel_lab.track.writer import import_mlflow

KIND = "probe"
ORIGIN = "keel_lab.probe_origin"  # tag: which storage the measurements are in


def log_probe(name: str, spec: Mapping[str, Any], root: str, uri: str, files: Mapping[str, bytes]) -> str:
    """Logs the files to the run `probe`, which is made if there is none; another probe of the sweep replaces them.

    Args:
        name: of the sweep, whose experiment is made if there is none yet.
        spec: the resolved sweep file.
        root: path or URI of the storage root.
        uri: as from `destination.tracking_uri`.
        files: by name; `probe.md` is the run's description, too.

    Returns:
        A sentence that says where they are, or why they are not there: MLflow is a mirror, and storage has them.
    """
    try:
        address = _logged(name, spec, root, uri, files)
    except Exception as error:  # noqa: BLE001 - MLflow and its drivers raise anything; said, and nothing is lost
        return (
            f"the probe was not delivered to MLflow at {shown(uri)}: {reason(error, uri)}; its measurements are in "
            "storage, and the same command delivers them without measuring again"
        )
    return f"MLflow: run {KIND} of {address}"


def _logged(name: str, spec: Mapping[str, Any], root: str, uri: str, files: Mapping[str, bytes]) -> str:
    import_mlflow(uri)
    from mlflow.entities import RunTag
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = open_experiment(client, name, artifact_location(uri, root))
    key = str(experiment.experiment_id)
    if "mlflow.note.content" not in experiment.tags:  # else a run of the sweep has described it, with its summary
        question, text = str(spec.get("question") or ""), to_yaml(spec.get("document", spec))
        describe(client, experiment, lambda links: experiment_note(question, text, links, shown(root)), None)
    origin = hashlib.sha256(root.encode()).hexdigest()[:12]
    found = client.search_runs([key], f"tags.kind = '{KIND}' and tags.`{ORIGIN}` = '{origin}'", max_results=1)
    run = found[0] if found else client.create_run(key, tags={"kind": KIND, ORIGIN: origin}, run_name=KIND)
    tags = {
        **execution_tags(provenance()),
        "mlflow.user": getpass.getuser(),
        "mlflow.source.name": "keel-lab probe",
        "mlflow.note.content": summary_note(files["probe.md"].decode()),
    }
    said = [RunTag(tag, value) for tag, value in tags.items()]
    client.log_batch(run.info.run_id, tags=said, synchronous=True)
    with tempfile.TemporaryDirectory(prefix="keel-lab-") as folder:
        for file, content in files.items():
            (Path(folder) / file).write_bytes(content)
        client.log_artifacts(run.info.run_id, folder)
    client.set_terminated(run.info.run_id, "FINISHED")
    return experiment_url(uri, key)
