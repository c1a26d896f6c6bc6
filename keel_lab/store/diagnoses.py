"""`trials/ID/diagnostics.parquet`: what a replay measured inside the model. A cache: made again if lost."""

from __future__ import annotations

import logging

from keel_lab.diagnostics import SCHEMA, Diagnostics
from keel_lab.errors import NewerSchemaError
from keel_lab.store.committed import path_of
from keel_lab.store.root import Root

_FILE = "diagnostics.parquet"
_log = logging.getLogger(__name__)


def load(root: Root, trial_id: str) -> Diagnostics | None:
    """The stored diagnostics; None if there are none or, with a warning, if they are damaged.

    Raises:
        NewerSchemaError: if they are of a newer schema.
    """
    path = path_of(trial_id, _FILE)
    try:
        found = Diagnostics.from_parquet(root.read(path))
    except FileNotFoundError:
        return None
    except NewerSchemaError as error:
        raise NewerSchemaError(f"{root}/{path} (a cache: it can be deleted)", error.found, SCHEMA) from error
    except ValueError as error:
        _log.warning("%s/%s is damaged and is made again: %s", root, path, error)
        return None
    return found if found.trial_id == trial_id else None


def save(root: Root, diagnostics: Diagnostics) -> Diagnostics:
    """Stores them in place of older ones, and returns them as stored, so that a first look equals a second."""
    content = diagnostics.to_parquet()
    root.write(path_of(diagnostics.trial_id, _FILE), content)
    return Diagnostics.from_parquet(content)
