"""The sweeps of a root: the resolved question, its trials, its judgements, its report; older revisions are kept."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic_core import from_json

from keel_lab.architecture import CorpusFacts
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Verdict
from keel_lab.errors import KeelLabError, NewerSchemaError, UsageError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.settings import ALONE, ModelSettings, Resources, Settings, SiblingSettings, TrainSettings
from keel_lab.store.document import DamagedError, check_name, dump, parse
from keel_lab.store.points import Point, PointFiles
from keel_lab.store.root import Root

SCHEMA = 1
_OWN = ("sweep.json", "trials.jsonl", "revisions", "judgements", "points", "lease.lock", "lease.json", "delivered.json")
_SECTIONS: dict[str, type[Settings]] = {"model": ModelSettings, "train": TrainSettings, "resources": Resources}
_log = logging.getLogger(__name__)


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


class Sweeps:
    """`sweeps/NAME/` of a storage root. Every method raises `StorageError` if the storage fails."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def save(self, sweep: StoredSweep) -> StoredSweep:
        """Stores a sweep and returns it as stored.

        One of that name with the same content is left alone and returned. One with other content goes to
        `revisions/N/`, and this one becomes revision N + 1. Killed at any moment, `load` finds the one or the other.

        Raises:
            UsageError: if the name cannot be one, or the stored one is of a newer schema.
            KeelLabError: if the stored one is damaged; it is not replaced.
        """
        revision = 1
        old = self.find(sweep.name)
        if old is sweep:  # resumed, as it was loaded
            return sweep
        body, lines = sweep.content()
        if old is not None:
            old_body, old_lines = old.content()
            if (old_body, old_lines) == (body, lines):
                return old
            kept = f"revisions/{old.revision}"
            self._root.write(self._path(sweep.name, f"{kept}/trials.jsonl"), old_lines)
            self._root.write(
                self._path(sweep.name, f"{kept}/sweep.json"), self._root.read(self._path(sweep.name, "sweep.json"))
            )
            revision = old.revision + 1
        document = {**body, "revision": revision, "created_at": sweep.created_at}
        self._root.write(self._path(sweep.name, "trials.jsonl"), lines)
        self._root.write(self._path(sweep.name, "sweep.json"), dump(document, SCHEMA))
        stored = replace(sweep, revision=revision)
        return stored.with_points(PointFiles(self._root, sweep.name).all()) if "search" in sweep.spec else stored

    def load(self, name: str) -> StoredSweep:
        """The sweep's newest revision.

        Raises:
            UsageError: if there is none (with the nearest names), or it is of a newer schema.
            KeelLabError: if it is damaged.
        """
        path = self._path(name, "sweep.json")
        place = f"{self._root}/{path}"
        try:
            content = self._root.read(path)
            sweep = _sweep(content, place, self._trial_lines(name, parse(content, place, SCHEMA)))
        except FileNotFoundError:
            raise UsageError(self._no_such(name)) from None
        except NewerSchemaError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            what = str(error) if place in str(error) else f"{place} is damaged or of another version: {error}"
            raise KeelLabError(
                f"{what}; restore it from a backup or {name}/revisions, or delete it and run the sweep file again: "
                "finished trials are reused"
            ) from error
        return sweep.with_points(PointFiles(self._root, name).all()) if "search" in sweep.spec else sweep

    def find(self, name: str) -> StoredSweep | None:
        """The sweep's newest revision, or None if there is no such sweep; raises as `load` otherwise."""
        return self.load(name) if self._root.exists(self._path(name, "sweep.json")) else None

    def names(self) -> list[str]:
        """The names of all stored sweeps, sorted."""
        return [name for name in self._root.list("sweeps") if self._root.exists(f"sweeps/{name}/sweep.json")]

    @staticmethod
    def difference(old_spec: Mapping[str, Any], new_spec: Mapping[str, Any]) -> list[str]:
        """What changed from one spec to another, a key a line: `ramp.peak_lr: 0.1 -> 0.2`."""
        old, new = dict(_leaves(old_spec)), dict(_leaves(new_spec))
        pairs = [
            (key, old.get(key, "(none)"), new.get(key, "(none)")) for key in [*old, *(k for k in new if k not in old)]
        ]
        return [f"{key}: {before} -> {after}" for key, before, after in pairs if before != after]

    def put_judgements(self, name: str, thresholds: Thresholds, judgements: Mapping[str, Verdict]) -> None:
        """Stores verdicts by trial id beside those stored before: one file a detector version and thresholds.

        The whole file is written each time: hand over many at once.
        """
        for detector in sorted({verdict.detector for verdict in judgements.values()}):
            new = {trial_id: verdict for trial_id, verdict in judgements.items() if verdict.detector == detector}
            merged = self.judgements(name, thresholds, detector) | new
            verdicts = {trial_id: verdict.to_json() for trial_id, verdict in merged.items()}
            document = {"detector": detector, "thresholds": thresholds.model_dump(mode="json"), "verdicts": verdicts}
            self._root.write(self._judgements_path(name, thresholds, detector), dump(document, SCHEMA, indent=None))

    def judgements(self, name: str, thresholds: Thresholds, detector: str = DETECTOR) -> dict[str, Verdict]:
        """The stored verdicts of a detector version under these thresholds, by trial id.

        A damaged file is warned of by name and counts as none: curves can be judged again.
        """
        path = self._judgements_path(name, thresholds, detector)
        data = self._mirror(path, "the curves are judged again")
        try:
            return {trial_id: Verdict.from_json(verdict) for trial_id, verdict in data.get("verdicts", {}).items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.warning("%s/%s is damaged (%s); the curves are judged again", self._root, path, error)
            return {}

    def put_file(self, name: str, relative: str, content: bytes) -> str:
        """Stores a file of the sweep's report, such as `report.md` or `figures/curves.svg`; returns its stored path."""
        if relative.split("/")[0] in _OWN:
            raise UsageError(f"sweep {name}: {relative} is a name that keel_lab itself uses; choose another")
        path = self._path(name, relative)
        self._root.write(path, content)
        return path

    def delivered(self, name: str) -> dict[str, Any]:
        """How far tracking was delivered; empty if nothing was. If damaged, with a warning: it is delivered again."""
        found = self._mirror(self._path(name, "delivered.json"), "everything is delivered again").get("delivered", {})
        return dict(found)

    def set_delivered(self, name: str, data: Mapping[str, Any]) -> None:
        """Stores how far tracking was delivered, atomically."""
        self._root.write(self._path(name, "delivered.json"), dump({"delivered": dict(data)}, SCHEMA))

    def _path(self, name: str, relative: str) -> str:
        return f"sweeps/{check_name('sweep', name)}/{relative}"

    def _judgements_path(self, name: str, thresholds: Thresholds, detector: str) -> str:
        text = json.dumps(thresholds.model_dump(mode="json"), sort_keys=True)
        settings = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self._path(name, f"judgements/{check_name('detector', detector)}-{settings}.json")

    def _mirror(self, path: str, consequence: str) -> dict[str, Any]:
        try:
            return parse(self._root.read(path), f"{self._root}/{path}", SCHEMA)
        except FileNotFoundError:
            return {}
        except DamagedError as error:
            _log.warning("%s; %s", error, consequence)
            return {}

    def _trial_lines(self, name: str, data: Mapping[str, Any]) -> bytes:
        """trials.jsonl of this revision: a `save` killed before its last write has left the old one in revisions."""
        for relative in ("trials.jsonl", f"revisions/{data['revision']}/trials.jsonl"):
            path = self._path(name, relative)
            if self._root.exists(path):
                lines = self._root.read(path)
                if hashlib.sha256(lines).hexdigest() == data["trials"]["sha256"]:
                    return lines
        raise DamagedError("its trials.jsonl is missing or another one")

    def _no_such(self, name: str) -> str:
        names = self.names()
        if not names:
            return f"no sweep {name!r} in {self._root}: it holds none; run a sweep file, or name another --storage"
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names[:10])}"
        return f"no sweep {name!r} in {self._root}; {hint}"


@functools.lru_cache(maxsize=2)  # a command looks at its sweep several times, and thousands of trials take a second
def _sweep(content: bytes, place: str, lines: bytes) -> StoredSweep:
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


def _leaves(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in spec.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False, default=str)


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
