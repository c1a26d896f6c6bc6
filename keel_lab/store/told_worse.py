"""Which trials of a sweep are told worse beside their siblings than by themselves: a small extract of its judgements.

It says as well of which results the judgements were made, so that a sweep of thousands is not judged anew to find
nothing new.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Verdict
from keel_lab.store.document import DamagedError, check_name, dump, parse
from keel_lab.store.root import Root

SCHEMA = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToldWorse:
    """The extract.

    Attributes:
        digest: of the results that were judged; "" if none were.
        verdicts: beside siblings, by trial id, where they say more than those of the trials by themselves.
    """

    digest: str = ""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)


def read(root: Root, name: str, thresholds: Thresholds) -> ToldWorse | None:
    """The stored extract; None if there is none or, with a warning, if it is damaged: it is made again."""
    path = _path(name, thresholds)
    try:
        data = parse(root.read(path), f"{root}/{path}", SCHEMA)
        return ToldWorse(data["digest"], {one: Verdict.from_json(told) for one, told in data["verdicts"].items()})
    except FileNotFoundError:
        return None
    except (AttributeError, DamagedError, KeyError, TypeError, ValueError) as error:
        _log.warning("%s/%s is damaged (%s); it is made again", root, path, error)
        return None


def write(root: Root, name: str, thresholds: Thresholds, found: ToldWorse) -> None:
    """Stores it, atomically."""
    verdicts = {trial_id: verdict.to_json() for trial_id, verdict in found.verdicts.items()}
    root.write(_path(name, thresholds), dump({"digest": found.digest, "verdicts": verdicts}, SCHEMA))


def _path(name: str, thresholds: Thresholds) -> str:
    text = json.dumps(thresholds.model_dump(mode="json"), sort_keys=True)
    settings = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"sweeps/{check_name('sweep', name)}/judgements/worse-{settings}.json"
