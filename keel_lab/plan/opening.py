"""From a sweep file, or a stored sweep's name, to everything a run needs; only `store` writes anything."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from keel_lab import spec as sweep_file
from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.errors import SpecError, UsageError
from keel_lab.own_trainer import catalogue_for
from keel_lab.plan import expand
from keel_lab.plan.chosen_lr import ChosenLrs, MeasuredRates
from keel_lab.plan.planned import Plan
from keel_lab.spec import SweepSpec
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps

if TYPE_CHECKING:
    from keel_lab.search.cells import Points
    from keel_lab.store.root import Root


@dataclass(frozen=True)
class OpenedSweep:
    """A sweep ready to be run.

    Attributes:
        notes: what the user should hear before it runs.
        points: of a search, the cells it searches and the trials of its points.
        origin: the stored sweep that this is, if it was opened by its name.
    """

    spec: SweepSpec
    facts: CorpusFacts
    plan: Plan
    notes: tuple[str, ...] = ()
    points: Points | None = None
    origin: StoredSweep | None = None

    def stored(self) -> StoredSweep:
        """The sweep as storage keeps it."""
        if self.origin is not None:
            return self.origin
        spec = self.spec.to_json()
        if "text" not in self.spec.data:  # else the same sweep, run from another checkout, would be another one
            spec["folder"] = "."
        if self.points is not None:
            spec["points_to_ask"] = sum(self.points.most(cell) for cell in self.points.cells)
        return StoredSweep(
            name=self.spec.name,
            spec=spec,
            thresholds=self.spec.thresholds,
            data=self.facts,
            trials=self.plan.trials,
            collapsed=self.plan.collapsed,
            revision=1,
            created_at=time.time(),
        )

    def store(self, root: Root, catalogue: Catalogue) -> StoredSweep:
        """Writes the tokenised corpus (if it is not there yet) and the sweep. Call it under the sweep's lease.

        Raises:
            UsageError: if the stored sweep of that name was trained on other bytes of the same corpus.
        """
        refuse_other_bytes(self, root)
        if self.facts.vocab:
            store_corpus(self, root, catalogue)
        return Sweeps(root).save(self.stored())


def changed(before: StoredSweep | None, after: StoredSweep) -> str | None:
    """A sentence for a sweep that replaced another one of its name; None if it did not."""
    if before is None or before.revision == after.revision:
        return None
    others = {planned.trial.id for planned in before.trials} - {planned.trial.id for planned in after.trials}
    what = "; ".join(Sweeps.difference(before.spec["document"], after.spec["document"])) or "its data or its defaults"
    kept = (
        f"{len(others)} of its trials, in storage, are no part of the new one"
        if others
        else "all its trials are part of the new one"
    )
    return (
        f"sweep {after.name} was defined otherwise before ({what}). That revision {before.revision} is kept, and "
        f"{kept}; name=... keeps both apart, and the earlier file run again is the earlier sweep again"
    )


def find_sweep(file: Path) -> Path:
    """The file itself or, if there is none, the shipped sweep that is called so (`sweeps/NAME.yaml` or `NAME`)."""
    if file.exists():
        return file
    shipped = find_spec("sweeps")
    places = [Path(place) for place in (shipped.submodule_search_locations or ())] if shipped else []
    if file.parent in (Path("sweeps"), Path()):
        for place in places:
            candidate = place / (file.name if file.suffix else f"{file.name}.yaml")
            if candidate.is_file():
                return candidate
    return file


def open_sweep(
    file: Path, overrides: Sequence[str], catalogue: Catalogue, measured: MeasuredRates | None = None
) -> OpenedSweep:
    """Reads a sweep file and expands it.

    Args:
        file: the sweep file.
        overrides: `key.path=value`, each.
        catalogue: its architectures and corpora.
        measured: where LRs come from that another sweep measured.

    Raises:
        UsageError: with everything that is wrong with the file, the overrides or the corpus.
    """
    return _opened(sweep_file.load(find_sweep(file), overrides, catalogue), catalogue, measured)


def reopen_sweep(name: str, root: Root, catalogue: Catalogue) -> OpenedSweep:
    """The stored sweep of that name, its trials as they were stored.

    Raises:
        UsageError: if there is none, or its corpus no longer holds the bytes it was started on.
    """
    stored = Sweeps(root).load(name)
    spec = SweepSpec.from_json(stored.spec)
    facts = catalogue_for(spec.trainer, catalogue).corpus(spec.data, spec.folder)
    points = _points(spec, catalogue_for(spec.trainer, catalogue), facts)
    opened = OpenedSweep(spec, facts, Plan(stored.trials, stored.collapsed), points=points)
    refuse_other_bytes(opened, root)
    return replace(opened, facts=stored.data, origin=stored)


def begun(opened: OpenedSweep, root: Callable[[], Root], catalogue: Catalogue) -> OpenedSweep:
    """A search that begins with the best points of another sweep, with these points; any other sweep as it is.

    Once a search is stored, its points are those that were chosen then.

    Args:
        opened: the sweep.
        root: opens the storage, if it is needed.
        catalogue: as for `open_sweep`.

    Raises:
        UsageError: if there is no such other sweep, or nothing of it lies in the space.
    """
    if opened.points is None or opened.points.search.warm_start.sweep is None:
        return opened
    from keel_lab.search.beginning import best_of, drawn_before

    source, drawn = opened.points.search.warm_start.sweep, opened.points.search.warm_start.drawn
    notes: tuple[str, ...] = ()
    if drawn is None:
        drawn = drawn_before(Sweeps(root()).find(opened.spec.name), source)
    if drawn is None:
        drawn = best_of(source, root(), opened.points)
        notes = (f"begins with {len(drawn)} point{'s' * (len(drawn) > 1)} of {source}",)
    spec = opened.spec.with_drawn(drawn)
    points = _points(spec, catalogue_for(spec.trainer, catalogue), opened.facts)
    return replace(opened, spec=spec, points=points, notes=(*opened.notes, *notes))


def refuse_other_bytes(opened: OpenedSweep, root: Root) -> None:
    """Refuses to go on with a stored sweep over a corpus whose content has changed since."""
    stored = Sweeps(root).find(opened.spec.name)
    if (
        stored is None
        or stored.data.source != opened.facts.source
        or stored.data.fingerprint == opened.facts.fingerprint
    ):
        return
    raise UsageError(
        f"sweep {opened.spec.name} was started on other bytes of {opened.facts.source}: "
        f"{stored.data.tokens:,} tokens, fingerprint {stored.data.fingerprint[:12]}; now "
        f"{opened.facts.tokens:,} tokens, fingerprint {opened.facts.fingerprint[:12]}.\n"
        f"Restore the files, or measure the new ones under another name: keel-lab run FILE name={opened.spec.name}-2"
    )


def _opened(spec: SweepSpec, catalogue: Catalogue, measured: MeasuredRates | None) -> OpenedSweep:
    catalogue = catalogue_for(spec.trainer, catalogue)
    facts = catalogue.corpus(spec.data, spec.folder)
    chosen = None if spec.lr_choice is None else ChosenLrs(spec.lr_choice, measured)
    plan = expand(spec, catalogue, facts, chosen)
    if chosen is not None:
        if chosen.problems:
            raise SpecError(chosen.problems)
        spec = spec.with_rates(chosen.rates)
    points = _points(spec, catalogue, facts)
    samples = [] if points is None else points.samples()
    room = min(facts.tokens, facts.heldout or facts.tokens) - 1  # a sequence is context tokens and one to predict
    longest = max(planned.trial.model.context for planned in (*plan.trials, *samples))
    if facts.vocab and longest > room:
        raise UsageError(
            f"model.context: found {longest}, but {facts.source} has only {facts.tokens:,} training and "
            f"{facts.heldout:,} held-out tokens; a context of at most {room} fits: shorten it or add text"
        )
    return OpenedSweep(spec, facts, plan, tuple(chosen.notes) if chosen is not None else (), points)


def _points(spec: SweepSpec, catalogue: Catalogue, facts: CorpusFacts) -> Points | None:
    if spec.search is None:
        return None
    from keel_lab.search.beginning import beginning
    from keel_lab.search.cells import Points

    points = Points(spec, catalogue, facts)
    for cell in points.cells:
        beginning(points, cell)  # a given point outside the space is refused here
    return points


def store_corpus(opened: OpenedSweep, root: Root, catalogue: Catalogue) -> None:
    """Writes the sweep's tokenised corpus into storage, if it is not there yet."""
    folder = f"data/{opened.facts.fingerprint}"
    local = root.local(folder)
    if local is not None:
        catalogue.prepare(opened.spec.data, opened.spec.folder, opened.facts, local)
        return
    if root.exists(f"{folder}/manifest.json"):  # written last: all is there
        return
    with tempfile.TemporaryDirectory(prefix="keel-lab-") as scratch:
        catalogue.prepare(opened.spec.data, opened.spec.folder, opened.facts, Path(scratch))
        files = sorted(Path(scratch).iterdir(), key=lambda path: path.name == "manifest.json")
        for path in files:
            root.write_file(f"{folder}/{path.name}", path)
