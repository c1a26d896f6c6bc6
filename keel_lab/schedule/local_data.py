"""A trial's tokenised shard on this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from keel_lab.store.root import Root
from keel_lab.trial import Trial


def data_folder(trial: Trial, root: Root) -> Path:
    """The folder with the trial's shard; a remote one is fetched once per machine and user, to the temporary folder.

    Raises:
        RuntimeError: if the trial names no data.
    """
    if trial.data is None:
        raise RuntimeError(f"trial {trial.id} names no data, but its trainer asks for some")
    stored = f"data/{trial.data.fingerprint}"
    here = root.local(stored)
    if here is not None:
        return here
    cache = Path(tempfile.gettempdir()) / f"keel-lab-data-{os.getuid()}" / trial.data.fingerprint
    for name in root.list(stored):
        if not (cache / name).exists():  # whole if it is there, and never another content of that fingerprint
            root.fetch(f"{stored}/{name}", cache)
    return cache
