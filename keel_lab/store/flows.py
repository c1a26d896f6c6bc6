"""`probes/ID.json`: what `keel-lab probe` measured of a trial, which need not have been run. A cache."""

from __future__ import annotations

import logging
from pathlib import Path

from keel_lab.errors import NewerSchemaError
from keel_lab.gradient_flow import Flow
from keel_lab.store.root import Root

_log = logging.getLogger(__name__)


def load(root: Root, trial_id: str) -> Flow | None:
    """The stored measurements; None if there are none or, with a warning, if they are damaged.

    Raises:
        NewerSchemaError: if they are of a newer schema.
    """
    path = _path(trial_id)
    try:
        return Flow.from_json(root.read(path))
    except FileNotFoundError:
        return None
    except NewerSchemaError:
        raise
    except ValueError as error:
        _log.warning("%s/%s is damaged and is made again: %s", root, path, error)
        return None


def save(root: Root, flow: Flow) -> Flow:
    """Stores them in place of older ones, and returns them as stored."""
    content = flow.to_json()
    root.write(_path(flow.trial_id), content)
    return Flow.from_json(content)


def put_file(root: Root, sweep: str, file: Path) -> Path:
    """Stores a figure of a probed sweep, `probes/SWEEP/NAME`.

    Returns:
        The stored file on this machine or, on an object store, the file that was uploaded.
    """
    path = f"probes/{sweep}/{file.name}"
    root.write_file(path, file)
    return root.local(path) or file


def _path(trial_id: str) -> str:
    return f"probes/{trial_id}.json"
