"""A resolved sweep, and how it reads from sweep.json and trials.jsonl."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic_core import from_json

from keel_lab.architecture import CorpusFacts
from keel_lab.detect.thresholds import Thresholds
from keel_lab.plan.planned import PlannedTrial
from keel_lab.settings import ALONE, ModelSettings, Resources, Settings, SiblingSettings, TrainSettings
from keel_lab.store.document import DamagedError, parse
from keel_lab.store.points import Point

SCHEMA = 1
_SECTIONS: dict[str, type[Settings]] = {"model": ModelSettings, "train": TrainSettings, "resources": Resources}


@dataclass(frozen=True)
class StoredSweep:
    """A resolved sweep.

    Attributes:
        spec: the sweep file with overrides and defaults, JSON-ready.
        collapsed: how many duplicates the plan collapsed.
        revision: from 1; raised by `Sweeps.save` when the content changed under the same name.
        created_at: Unix seconds.
        points: of a search, as far as it has come; their trials are the last of `trials`.
    """

    name: str
    spec: dict[str, Any]
    thresholds: Thresholds
    data: CorpusFacts
    trials: tuple[PlannedTrial, ...]
    collapsed: int = 0
    revision: int = 1
    created_at: float = 0.0
    points: tuple[Point, ...] = ()

    @functools.cached_property
    def siblings(self) -> SiblingSettings:
        """What runs beside each of its ramps; nothing in a sweep stored before there was a choice."""
        return SiblingSettings.model_validate(self.spec.get("siblings", ALONE.model_dump()))

    @property
    def skips_above_divergence(self) -> bool:
        """See `Budget.skip_above_divergence`."""
        return bool(self.spec.get("budget", {}).get("skip_above_divergence"))

    @property
    def rungs(self) -> int:
        """How many times on its way a trial says its loss: only where a search's pruner may stop it."""
        search = self.spec.get("search")
        return int(search["rungs"]) if search and search["pruner"]["name"] != "none" else 0

    @property
    def points_to_ask(self) -> int:
        """Of a search, how many points it asks in all, in every cell of its grid; else 0."""
        return int(self.spec.get("points_to_ask", 0))

    @property
    def cut(self) -> frozenset[str]:
        """The ids of trials that a search's pruner stopped: they have no result, and need none."""
        return frozenset(trial_id for point in self.points for trial_id in point.cut)

    def with_points(self, points: Sequence[Point]) -> StoredSweep:
        """With the points of a search, in place of those it had, and their trials."""
        before = {planned.trial.id for point in self.points for planned in point.trials}
        trials = {one.trial.id: one for one in self.trials if one.trial.id not in before}
        for point in points:
            for planned in point.trials:
                trials.setdefault(planned.trial.id, planned)
        return replace(self, trials=tuple(trials.values()), points=tuple(points))

    def content(self) -> tuple[dict[str, Any], bytes]:
        """What two equal sweeps have in common: the body of sweep.json, and trials.jsonl."""
        planned_trials = self.with_points(()).trials
        lines = "".join(json.dumps(planned.to_json(), ensure_ascii=False) + "\n" for planned in planned_trials).encode()
        body = {
            "name": self.name,
            "spec": self.spec,
            "thresholds": self.thresholds.model_dump(mode="json"),
            "data": asdict(self.data),
            "collapsed": self.collapsed,
            "trials": {"count": len(planned_trials), "sha256": hashlib.sha256(lines).hexdigest()},
        }
        return json.loads(json.dumps(body)), lines


@functools.lru_cache(maxsize=2)  # a command looks at its sweep several times, and thousands of trials take a second
def read_sweep(content: bytes, place: str, lines: bytes) -> StoredSweep:
    """The sweep of these two files, the first of which is called `place`.

    Raises:
        KeyError, TypeError, ValueError: if they are damaged, or of another version.
        NewerSchemaError: if they are of a newer schema.
    """
    data = parse(content, place, SCHEMA)
    trials, checked = [], set()
    shared: dict[str, Settings] = {}
    latest: dict[str, Any] = {}
    for line in lines.splitlines():
        entry = from_json(line, cache_strings="keys")
        _share(entry["trial"], shared, latest)
        planned = PlannedTrial.from_json(entry)
        kind = (planned.trial.architecture, planned.trial.schedule.kind)
        if kind in checked:  # the bytes are the ones written, so one of a kind tells whether ids are made as they were
            planned.trial.__dict__["id"] = entry["id"]
        elif planned.trial.id != entry["id"]:
            raise DamagedError(f"trial {entry['id']} reads as {planned.trial.id}")
        checked.add(kind)
        trials.append(planned)
    return StoredSweep(
        name=data["name"],
        spec=data["spec"],
        thresholds=Thresholds.model_validate(data["thresholds"], strict=False),
        data=CorpusFacts(**data["data"]),
        trials=tuple(trials),
        collapsed=data["collapsed"],
        revision=data["revision"],
        created_at=data["created_at"],
    )


def _share(trial: dict[str, Any], shared: dict[str, Settings], latest: dict[str, Any]) -> None:
    """Puts one object in place of equal sections of many trials: half of what a large sweep takes in memory.

    Args:
        trial: as it was stored; its sections are replaced.
        shared: the objects so far, by section and content.
        latest: the content that each section had in the trial before, which is the same one for most.
    """
    for section, kind in _SECTIONS.items():
        content = trial.get(section)
        if content is None:
            continue
        before, known = latest.get(section, (None, None))
        if content != before:
            key = f"{section} {content}"
            if key not in shared:
                shared[key] = kind.model_validate(content, strict=False)
            known = shared[key]
            latest[section] = content, known
        trial[section] = known
