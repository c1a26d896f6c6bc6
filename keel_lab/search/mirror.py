"""The studies of a sweep in an Optuna storage (SQLite, PostgreSQL, a journal file), for optuna-dashboard to show.

A mirror: what is in it follows from the stored points and can be made again. If it is away, that is said once, and
costs no point.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keel_lab.errors import UsageError
from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    from keel_lab.search.study import Study

VARIABLE = "KEEL_LAB_OPTUNA"
OFF = "off"
JOURNAL = "journal:"
_DATABASES = ("sqlite", "postgresql", "mysql")
_log = logging.getLogger(__name__)


def mirror_url(file: Path | None) -> str | None:
    """Where the studies are mirrored: KEEL_LAB_OPTUNA, else SQLite in a local `file`; None for nowhere.

    Raises:
        UsageError: if the variable holds nothing that Optuna could write to.
    """
    given = os.environ.get(VARIABLE)
    if given:
        scheme = given.partition(":")[0].partition("+")[0]
        if given != OFF and not given.startswith(JOURNAL) and scheme not in _DATABASES:
            raise UsageError(
                f"{VARIABLE}: found {given!r}; allowed are sqlite:///FILE, postgresql://..., mysql://..., "
                f"{JOURNAL}FILE, and {OFF}"
            )
        return None if given == OFF else given
    return None if file is None else f"sqlite:///{file}"


class Mirror:
    """Writes what is asked and told.

    Args:
        url: as from `mirror_url`; None to mirror nothing.
        sweep: whose studies are named `SWEEP: CELL`.
    """

    def __init__(self, url: str | None, sweep: str) -> None:
        self._url, self._sweep = url, sweep
        self._storage: Any = None
        self._ids: dict[int, int] = {}
        self.warning: str | None = None

    def begin(self, studies: Sequence[Study]) -> None:
        """Brings the mirror to where the studies are: what it lacks is added, another study's remains are replaced."""
        if self._url is not None:
            self._guard(lambda: self._begin(studies))

    def asked(self, study: Study, point: Point) -> None:
        """A point was asked."""
        self._guard(lambda: self._add(study, point))

    def told(self, study: Study, point: Point) -> None:
        """A point was told."""
        self._guard(lambda: self._finish(study, point))

    def where(self) -> str | None:
        """How to look at it; None if there is nothing to look at."""
        if self._url is None or self.warning:
            return None
        return f"optuna-dashboard {self._url.removeprefix(JOURNAL)}"

    def _begin(self, studies: Sequence[Study]) -> None:
        self._storage = _open(self._url or "")
        for study in studies:
            name = f"{self._sweep}: {study.cell.name}"
            directions = study.directions
            found = {one.study_name: one for one in self._storage.get_all_studies()}
            if name in found:
                self._ids[study.cell.number] = study_id = found[name]._study_id
                if not self._fits(study, study_id, found[name].directions == directions):
                    self._storage.delete_study(study_id)
                    del found[name]
            if name not in found:
                study_id = self._storage.create_new_study(directions, name)
                self._ids[study.cell.number] = study_id
                self._storage.set_study_system_attr(study_id, "study:metric_names", study.metric_names)
            there = len(self._storage.get_all_trials(self._ids[study.cell.number], deepcopy=False))
            for point in study.asked[:there]:
                self._finish(study, point)
            for point in study.asked[there:]:
                self._add(study, point)

    def _fits(self, study: Study, study_id: int, same_directions: bool) -> bool:
        """Whether the mirror holds the beginning of this very study."""
        trials = self._storage.get_all_trials(study_id, deepcopy=False)
        ours = [study.frozen(point).params for point in study.asked]
        return (
            same_directions
            and len(trials) <= len(ours)
            and all(one.params == params for one, params in zip(trials, ours, strict=False))
        )

    def _add(self, study: Study, point: Point) -> None:
        self._storage.create_new_trial(self._ids[study.cell.number], template_trial=_shown(study, point))

    def _finish(self, study: Study, point: Point) -> None:
        """Writes the end of a point that stands there as running."""
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._ids[study.cell.number], point.number)
        if point.state is State.RUNNING or self._storage.get_trial(trial_id).state.is_finished():
            return
        shown = _shown(study, point)
        for step, value in shown.intermediate_values.items():
            self._storage.set_trial_intermediate_value(trial_id, step, value)
        for key, value in shown.user_attrs.items():
            self._storage.set_trial_user_attr(trial_id, key, value)
        for key, value in shown.system_attrs.items():
            if key.startswith("constraints"):
                self._storage.set_trial_system_attr(trial_id, key, value)
        self._storage.set_trial_state_values(trial_id, shown.state, shown.values)

    def _guard(self, call: Callable[[], None]) -> None:
        if self._url is None or self.warning:
            return
        try:
            with contextlib.redirect_stderr(None):
                call()
        except Exception as error:  # noqa: BLE001 - whatever a database says, it is only a mirror
            self.warning = (
                f"the Optuna storage is not up to date: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            )
            _log.warning("%s", self.warning)


def _shown(study: Study, point: Point) -> Any:
    """The point as a trial for people: without what a sampler notes for itself, which can be long."""
    frozen = study.frozen(point)
    frozen.system_attrs = {key: value for key, value in frozen.system_attrs.items() if key.startswith("constraints")}
    return frozen


def _open(url: str) -> Any:
    import optuna

    if url.startswith(JOURNAL):
        from optuna.storages import journal

        backend = journal.JournalFileBackend(url.removeprefix(JOURNAL))
        return optuna.storages.JournalStorage(backend)
    return optuna.storages.RDBStorage(url)
