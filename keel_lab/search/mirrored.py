"""The studies of a search in an Optuna storage: brought to where the stored points are, whatever they lack of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    import optuna

    from keel_lab.search.study import Study

BEGUN = "keel_lab.begun"  # attribute: when the study's first point was asked, which tells searches of one name apart


@dataclass(frozen=True)
class Shown:
    """A study as it is to be shown now.

    Attributes:
        study: of the search; the driver may ask and tell it meanwhile.
        points: in the order of asking.
    """

    study: Study
    points: Sequence[Point]

    @property
    def number(self) -> int:
        """The search's place in the sweep."""
        return self.study.cell.number

    @property
    def begun(self) -> str:
        """See `BEGUN`."""
        return repr(self.points[0].asked_at)

    def trial(self, point: Point) -> optuna.trial.FrozenTrial:
        """The point as a trial for people: without what a sampler notes for itself, which can be long."""
        frozen = self.study.frozen(point)
        system: Mapping[str, Any] = frozen.system_attrs
        frozen.system_attrs = {key: value for key, value in system.items() if key.startswith("constraints")}
        return frozen


class MirroredStudies:
    """What an open storage holds of a sweep's studies.

    Args:
        storage: of Optuna.
        sweep: its studies are named `SWEEP: CELL`.
        own: whether nobody else writes to the storage; else a study of that name that another search began is left
            alone, and ours is named `SWEEP: CELL (2)`.
    """

    def __init__(self, storage: Any, sweep: str, *, own: bool) -> None:
        self.storage = storage
        self._sweep, self._own = sweep, own
        self._ids: dict[int, int] = {}
        self._ended: dict[int, list[bool]] = {}  # by study and point; one that is not there yet has no place

    def update(self, shown: Shown) -> None:
        """Adds the points that are not there, and the ends of those that stand there as running."""
        if not shown.points:
            return
        if shown.number not in self._ids:
            self._find(shown)
        study_id, ended = self._ids[shown.number], self._ended[shown.number]
        for point, known in zip(shown.points, tuple(ended), strict=False):
            if not known and point.state is not State.RUNNING:
                self._finish(study_id, shown, point)
                ended[point.number] = True
        for point in shown.points[len(ended) :]:
            self.storage.create_new_trial(study_id, template_trial=shown.trial(point))
            ended.append(point.state is not State.RUNNING)

    def _find(self, shown: Shown) -> None:
        """The study that is there already; another one's remains are replaced."""
        there = {one.study_name: one for one in self.storage.get_all_studies()}
        name = first = f"{self._sweep}: {shown.study.cell.name}"
        while not self._own and name in there and self._begun(there[name]._study_id) not in (None, shown.begun):
            number = 2 if name == first else int(name.rpartition("(")[2][:-1]) + 1
            name = f"{first} ({number})"
        trials: list[Any] = []
        if name in there:
            study_id = there[name]._study_id
            trials = self.storage.get_all_trials(study_id, deepcopy=False)
            if there[name].directions != shown.study.directions or not _fits(trials, shown):
                self.storage.delete_study(study_id)
                del there[name]
                trials = []
        if name not in there:
            study_id = self.storage.create_new_study(shown.study.directions, name)
            self.storage.set_study_user_attr(study_id, BEGUN, shown.begun)
            self.storage.set_study_system_attr(study_id, "study:metric_names", shown.study.metric_names)
        self._ids[shown.number] = study_id
        self._ended[shown.number] = [one.state.is_finished() for one in trials]

    def _begun(self, study_id: int) -> str | None:
        found: str | None = self.storage.get_study_user_attrs(study_id).get(BEGUN)
        return found

    def _finish(self, study_id: int, shown: Shown, point: Point) -> None:
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, point.number)
        trial = shown.trial(point)
        for step, value in trial.intermediate_values.items():
            self.storage.set_trial_intermediate_value(trial_id, step, value)
        for key, value in trial.user_attrs.items():
            self.storage.set_trial_user_attr(trial_id, key, value)
        for key, value in trial.system_attrs.items():
            self.storage.set_trial_system_attr(trial_id, key, value)
        self.storage.set_trial_state_values(trial_id, trial.state, trial.values)


def _fits(trials: Sequence[Any], shown: Shown) -> bool:
    """Whether trials in the storage are the beginning of this very study."""
    if len(trials) > len(shown.points):
        return False
    ours = [shown.trial(point).params for point in shown.points[: len(trials)]]
    return all(one.params == params for one, params in zip(trials, ours, strict=True))
