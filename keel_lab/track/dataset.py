"""The corpus of a run as MLflow's dataset: its digest is that of the tokens a trial's id hashes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from keel_lab.architecture import CorpusFacts
from keel_lab.plan.planned import PlannedTrial
from keel_lab.track.destination import local_folder, within

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

DIGEST = 36  # characters that MLflow keeps; the whole fingerprint is in the source
NAME = 500


def dataset_of(planned: PlannedTrial, corpus: CorpusFacts | None, root: str) -> list[DatasetInput]:
    """What the trial trains on; empty for a trainer that brings its own data.

    Args:
        planned: the trial.
        corpus: of its sweep, for name and size.
        root: storage root, which holds the tokens.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    data = planned.trial.data
    if data is None:
        return []
    known = corpus if corpus is not None and corpus.fingerprint == data.fingerprint else None
    source = {"uri": within(root, f"data/{data.fingerprint}"), "fingerprint": data.fingerprint}
    profile = asdict(known) if known else {"tokenizer": data.tokenizer, "vocab": data.vocab}
    dataset = Dataset(
        name=(known.source if known else data.fingerprint[:12])[:NAME],
        digest=data.fingerprint[:DIGEST],
        source_type=_source_type(root),
        source=json.dumps(source, sort_keys=True),
        profile=json.dumps(profile, sort_keys=True, default=str),
    )
    return [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])]


def _source_type(root: str) -> str:
    """As MLflow calls where a dataset's files lie: `local`, `s3`, `gs`, ..."""
    return "local" if local_folder(root) is not None else root.partition("://")[0]
