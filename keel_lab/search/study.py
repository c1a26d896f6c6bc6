"""One Optuna study in memory, built from the stored points of its search, so that no restart changes what it asks.

Before each ask the sampler is made anew, with a seed that follows from the search's seed and the point's number. What
a sampler keeps between points it keeps as attributes of trials and study (CMA-ES, NSGA-II), which are stored with the
points; so the next point is a function of what is in storage, and of nothing else.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keel_lab.search import samplers, space
from keel_lab.search.cells import Points, SearchCell
from keel_lab.search.telling import Told
from keel_lab.spec.label import label_text
from keel_lab.spec.search import Parameter
from keel_lab.store.points import Point, State

if TYPE_CHECKING:
    import optuna


class Study:
    """Asks and is told the points of one search.

    Args:
        points: makes its trials.
        cell: which search.
        stored: its points so far, in the order of asking.
        begin: points to ask first, as numbers by parameter name.
    """

    def __init__(
        self, points: Points, cell: SearchCell, stored: Iterable[Point], begin: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.cell = cell
        self._points, self._search, self._begin = points, points.search, begin
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=cell.name,
            directions=[objective.direction for objective in self._search.objectives],
            sampler=optuna.samplers.RandomSampler(),
            pruner=samplers.pruner(self._search.pruner),
        )
        self._id = self._storage.get_study_id_from_name(cell.name)
        self.asked: list[Point] = []
        for point in stored:
            self._study.add_trial(self.frozen(point))
            for key, value in point.study.items():
                self._storage.set_study_system_attr(self._id, key, value)
            self.asked.append(point)

    @property
    def directions(self) -> list[optuna.study.StudyDirection]:
        """Of its objectives."""
        return list(self._study.directions)

    @property
    def metric_names(self) -> list[str]:
        """Of its objectives."""
        return [objective.name for objective in self._search.objectives]

    @property
    def exhausted(self) -> bool:
        """Whether no more points are to be asked."""
        return not self.left

    @property
    def left(self) -> int:
        """How many points are still to be asked."""
        return max(0, self._points.most(self.cell) - len(self.asked))

    def ask(self) -> Point:
        """The next point."""
        number = len(self.asked)
        self._study.sampler = samplers.sampler(self._search, self._seed(number), self._values(), bool(self.cell.joint))
        if number < len(self._begin):
            self._study.enqueue_trial(dict(self._begin[number]))
        trial = self._study.ask()
        drawn: dict[str, Any] = {}
        for parameter in self._points.parameters(self.cell, drawn):
            drawn[parameter.name] = space.suggest(trial, parameter, self._points.sublayers(self.cell, drawn))
        values = self._points.values(self.cell, drawn)
        planned = self._points.trials(values, self._points.seeds, point=number)
        point = Point(
            self.cell.number,
            number,
            self.cell.name,
            drawn,
            values,
            tuple(planned),
            system=self._system(number),
            study=self._storage.get_study_system_attrs(self._id),
            asked_at=time.time(),
        )
        self.asked.append(point)
        return point

    def cut(self, number: int, rungs: Mapping[int, float]) -> bool:
        """Whether Optuna's pruner would stop a running point, whose loss by tokens is known so far."""
        trial = self._trial(number)
        known = self._frozen(number).intermediate_values
        for tokens, loss in rungs.items():
            if tokens not in known:
                trial.report(loss, tokens)
        return trial.should_prune()

    def tell(self, number: int, told: Told, cut: tuple[str, ...] = ()) -> Point:
        """Tells the end of a point, and returns it as it is then."""
        trial = self._trial(number)
        if told.constraint is None:
            known = self._frozen(number).intermediate_values
            for tokens, loss in told.rungs.items():
                if tokens not in known:
                    trial.report(loss, tokens)
        else:
            trial.set_constraint("diverged", told.constraint)
        for key, value in told.facts.items():
            trial.set_user_attr(key, value)
        if self._search.sampler.name == "grid":
            import optuna

            self._study.sampler = (
                optuna.samplers.RandomSampler()
            )  # told its last point, the grid's stops a loop of Optuna's
        state = _state(told.state)
        self._study.tell(number, list(told.values) if told.values is not None else None, state=state)
        point = self.asked[number].with_end(
            state=told.state,
            told=told.values,
            rungs=dict(told.rungs),
            constraint=told.constraint,
            facts=dict(told.facts),
            cut=cut,
            system=self._system(number),
            study=self._storage.get_study_system_attrs(self._id),
        )
        self.asked[number] = point
        return point

    def frozen(self, point: Point) -> optuna.trial.FrozenTrial:
        """A stored point as Optuna's trial."""
        return frozen(point, {one.name: one for one in (*self.cell.joint, *self._search.space)})

    def _values(self) -> dict[str, list[Any]]:
        """The values of each choice, for the sampler `grid`."""
        return {
            one.name: [space.stored(value) for value in one.domain.values]
            for one in self._points.all_parameters(self.cell)
            if one.domain.form == "choice"
        }

    def _seed(self, number: int) -> int:
        text = f"{self._search.seed}/{self.cell.name}/{number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def _trial(self, number: int) -> optuna.trial.Trial:
        import optuna

        return optuna.trial.Trial(self._study, self._trial_id(number))

    def _frozen(self, number: int) -> optuna.trial.FrozenTrial:
        return self._storage.get_trial(self._trial_id(number))

    def _system(self, number: int) -> dict[str, Any]:
        return dict(self._storage.get_trial_system_attrs(self._trial_id(number)))


def frozen(point: Point, parameters: Mapping[str, Parameter]) -> optuna.trial.FrozenTrial:
    """A stored point as Optuna's trial.

    Args:
        point: the point.
        parameters: of its search, by name.
    """
    import optuna

    sublayers = point.trials[0].trial.sublayers
    values = list(point.told) if point.told is not None else None
    if point.state is State.PRUNED and point.rungs:
        values = [point.rungs[max(point.rungs)]]  # as `Study.tell` gives it
    return optuna.trial.create_trial(
        state=_state(point.state),
        values=values,
        params={name: space.stored(value) for name, value in point.drawn.items()},
        distributions={name: space.distribution(parameters[name].domain, sublayers) for name in point.drawn},
        user_attrs={**point.facts, "values": {key: _text(value) for key, value in point.values.items()}},
        system_attrs=dict(point.system),
        intermediate_values=dict(point.rungs) if point.constraint is None else {},
    )


def _state(state: State) -> optuna.trial.TrialState:
    from optuna.trial import TrialState

    return TrialState[state.upper()]


def _text(value: Any) -> str:
    return label_text(value) if isinstance(value, str | int | float | bool) else str(value)
