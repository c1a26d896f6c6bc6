"""Finding one trial by what a person types: its id, the beginning of it, its name, or SWEEP/NAME."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keel_lab.errors import KeelLabError, UsageError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.siblings import with_forks
from keel_lab.store.root import Root, StorageError
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

_log = logging.getLogger(__name__)
SHORTEST = 4  # characters of an id, as in git


@dataclass(frozen=True)
class Home:
    """A sweep that a trial stands in, and what it is there."""

    sweep: StoredSweep
    planned: PlannedTrial


@dataclass(frozen=True)
class FoundTrial:
    """A trial of the storage; `homes` is empty if no stored sweep names it (any more)."""

    trial_id: str
    homes: tuple[Home, ...]

    @property
    def name(self) -> str:
        """Its name in the first of its sweeps, else its id."""
        return self.homes[0].planned.name if self.homes else self.trial_id


def find_trial(root: Root, text: str, sweep: str | None = None) -> FoundTrial:
    """The one trial that `text` means.

    Args:
        root: where to look.
        text: an id, a prefix of one of at least `SHORTEST` characters, a name such as `keel-b16-s0`, or one of these
            after a sweep's name and a slash.
        sweep: look in this sweep only.

    Raises:
        UsageError: if there is no such trial (with the nearest names), several, or no such sweep.
    """
    sweeps = Sweeps(root)
    if sweep is None:
        sweep, text = _split(text, sweeps)
    stored_sweeps = _readable(sweeps) if sweep is None else [sweeps.load(sweep)]
    homes = [Home(stored, planned) for stored in stored_sweeps for planned in stored.trials]
    ids = {home.planned.trial.id for home in homes} | (set(root.list("trials")) if sweep is None else set())
    matching = {home.planned.trial.id for home in homes if home.planned.name == text}
    if not matching:
        matching = {text} if text in ids else {one for one in ids if len(text) >= SHORTEST and one.startswith(text)}
    if not matching:
        homes += _forks(root, {home.sweep.name: home.sweep for home in homes}.values())
        matching = {home.planned.trial.id for home in homes if home.planned.name == text}
    where = str(root) if sweep is None else f"sweep {sweep} of {root}"
    if not matching:
        raise UsageError(f"no trial {text!r} in {where}; {_near(text, homes, ids)}")
    if len(matching) > 1:
        several = [_full(one, homes) for one in sorted(matching)]
        raise UsageError(
            f"{text!r} means {len(several)} trials in {where}: {', '.join(several[:6])}"
            f"{', ...' if len(several) > 6 else ''}; give a longer id, or SWEEP/NAME"
        )
    (trial_id,) = matching
    return FoundTrial(trial_id, tuple(home for home in homes if home.planned.trial.id == trial_id))


def _forks(root: Root, sweeps: Iterable[StoredSweep]) -> list[Home]:
    """The forks that follow from the results of sweeps that make them."""
    making = [sweep for sweep in sweeps if sweep.siblings.holds or sweep.siblings.reversibility]
    results = Trials(root).results({planned.trial.id for sweep in making for planned in sweep.trials})
    return [
        Home(sweep, planned)
        for sweep in making
        for planned in with_forks(sweep.trials, results, sweep.siblings)[len(sweep.trials) :]
    ]


def _readable(sweeps: Sweeps) -> list[StoredSweep]:
    """All sweeps but those that are damaged or of a newer version, which are warned of: others are none the worse."""
    found = []
    for name in sweeps.names():
        try:
            found.append(sweeps.load(name))
        except StorageError:
            raise
        except KeelLabError as error:
            _log.warning("trials of sweep %s are not looked through: %s", name, error)
    return found


def _split(text: str, sweeps: Sweeps) -> tuple[str | None, str]:
    """`SWEEP/NAME` in its two parts; a name may hold a slash itself (`keel-b16-alpha=L/2-s0`)."""
    first, slash, rest = text.partition("/")
    return (first, rest) if slash and rest and first in sweeps.names() else (None, text)


def _full(trial_id: str, homes: Sequence[Home]) -> str:
    named = [f"{home.planned.name} in {home.sweep.name}" for home in homes if home.planned.trial.id == trial_id]
    return f"{trial_id} ({named[0]})" if named else trial_id


def _near(text: str, homes: Sequence[Home], ids: set[str]) -> str:
    known = sorted({home.planned.name for home in homes}) or sorted(ids)
    if not known:
        return "it holds none; run a sweep file, or name another --storage"
    near = difflib.get_close_matches(text, [*known, *sorted(ids)], n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:6])}"
