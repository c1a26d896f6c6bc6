"""The sweeps of a root: the resolved question, its trials, its judgements, its report; older revisions are kept."""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Verdict
from keel_lab.errors import KeelLabError, NewerSchemaError, UsageError
from keel_lab.store.document import DamagedError, check_name, dump, parse
from keel_lab.store.points import PointFiles
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import SCHEMA, StoredSweep, read_sweep

_OWN = ("sweep.json", "trials.jsonl", "revisions", "judgements", "points", "lease.lock", "lease.json", "delivered.json")
_log = logging.getLogger(__name__)


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
            sweep = read_sweep(content, place, self._trial_lines(name, parse(content, place, SCHEMA)))
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

    def keep(self, sweep: StoredSweep) -> bool:
        """Stores a sweep again if somebody has removed it: else nobody finds what follows. Whether it was so."""
        if self._root.exists(self._path(sweep.name, "sweep.json")):
            return False
        self.save(sweep)
        return True

    def names(self) -> list[str]:
        """The names of all stored sweeps, sorted."""
        return [name for name in self._root.list("sweeps") if self._root.exists(f"sweeps/{name}/sweep.json")]

    def which(self) -> str:
        """The sentence for who names no sweep: those that there are."""
        names = self.names()
        there = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        if not names:
            return f"{self._root} holds no sweep; run a sweep file, or name another --storage"
        return f"which sweep? {self._root} holds {there}; name one of them"

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


def _leaves(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in spec.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False, default=str)
