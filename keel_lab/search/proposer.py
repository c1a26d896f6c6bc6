"""What the runner asks of a search: the trials of its points, in parallel, each point stored as asked and as told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.search.beginning import beginning
from keel_lab.search.best import best_points
from keel_lab.search.cells import Points
from keel_lab.search.mirror import Mirror
from keel_lab.search.pruning import Pruning
from keel_lab.search.study import Study
from keel_lab.search.telling import Run, Told, tell
from keel_lab.store.points import Point, PointFiles, State
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


class SearchProposer:
    """See `schedule.proposer.Proposer`.

    Args:
        points: the searches of the sweep, and the trials of a point.
        files: where points are stored.
        trials: where results and curves are.
        stored: the points so far.
        room: how many trials run at once; no point is asked while so many are out, since each is better informed the
            more is known.
        mirror: Optuna's storage, for people to look at.
    """

    def __init__(
        self,
        points: Points,
        files: PointFiles,
        trials: Trials,
        stored: Sequence[Point],
        room: Callable[[], int],
        mirror: Mirror,
    ) -> None:
        self._points, self._files, self._trials, self._room, self._mirror = points, files, trials, room, mirror
        searched = [point for point in stored if not point.fresh]
        self._studies = [
            Study(points, cell, (one for one in searched if one.cell == cell.number), beginning(points, cell))
            for cell in points.cells
        ]
        self._fresh = {(point.cell, point.number): point for point in stored if point.fresh}
        self._results: dict[str, TrialResult] = {}
        self._queue: deque[PlannedTrial] = deque()
        self._out: set[str] = set()
        self._open: list[Point] = []
        self._lost: set[str] = set()
        self._pruning = Pruning(points.search)
        mirror.begin(self._studies)
        for point in stored:
            if point.state is State.RUNNING:
                self._begin(point)

    def samples(self) -> Sequence[Trial]:
        """See `Proposer.samples`: the corners of the space."""
        return [planned.trial for planned in self._points.samples()]

    def points(self) -> Sequence[Point]:
        """See `Proposer.points`."""
        return [*(point for study in self._studies for point in study.asked), *self._fresh.values()]

    def left(self) -> int:
        """See `Proposer.left`."""
        size = len(self._points.seeds) * len(self._points.search.sections)
        again = len(self._points.fresh_seeds) * len(self._points.search.sections)
        searched = sum(study.left for study in self._studies) * size
        return searched + again * sum(len(self._unmeasured(study)) for study in self._studies)

    def ask(self) -> PlannedTrial | None:
        """See `Proposer.ask`."""
        while True:
            while self._queue:
                planned = self._queue.popleft()
                if planned.trial.id not in self._out and planned.trial.id not in self._results:
                    self._out.add(planned.trial.id)
                    return planned
            if len(self._out) >= self._room():
                return None
            point = self._next()
            if point is None:
                return None
            self._begin(point)

    def tell(self, planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> None:
        """See `Proposer.tell`."""
        self._out.discard(planned.trial.id)
        self._results[planned.trial.id] = result
        self._end_points()

    def failed(self, planned: PlannedTrial) -> None:
        """See `Proposer.failed`. Nothing is told: the point stays open, and `resume` tries its trials again."""
        self._out.discard(planned.trial.id)
        self._lost.add(planned.trial.id)
        self._open = [point for point in self._open if not self._has(point, self._lost)]

    def hear(self, news: Progress) -> Iterable[str]:
        """See `Proposer.hear`: the trials of a point that the pruner cuts."""
        point = next((one for one in self._open if self._has(one, {news.trial_id}) and not one.fresh), None)
        if point is None or not self._pruning.note(point, news):
            return ()
        study = self._studies[point.cell]
        if not self._pruning.cuts(point, study.asked, partial(study.cut, point.number)):
            return ()
        ids = {planned.trial.id for planned in point.trials}
        self._queue = deque(one for one in self._queue if one.trial.id not in ids or self._shared(one, point))
        return sorted((ids & self._out) - {one.trial.id for one in point.trials if self._shared(one, point)})

    def stopped(self, planned: PlannedTrial) -> bool:
        """See `Proposer.stopped`: the point of a cut trial is told with what it had."""
        self._out.discard(planned.trial.id)
        here = [one for one in self._open if self._has(one, {planned.trial.id}) and self._pruning.was_cut(one)]
        for point in here:
            ids = [one.trial.id for one in point.trials]
            if not self._out & set(ids):
                told = Told(State.PRUNED, rungs=self._pruning.rungs(point), facts={"why": "cut by the pruner"})
                self._end(point, told, tuple(one for one in ids if one not in self._results))
        return bool(here)

    def _next(self) -> Point | None:
        """The next point of the search that has asked fewest; once all are told, the best to be measured again."""
        waiting = [study for study in self._studies if not study.exhausted]
        if waiting:
            point = min(waiting, key=lambda study: len(study.asked)).ask()
            self._files.put(point)
            self._mirror.changed()
            return point
        for study in self._studies:
            if any(point.cell == study.cell.number for point in self._open):
                continue
            for best in self._unmeasured(study):
                trials = self._points.trials(best.values, self._points.fresh_seeds, point=best.number, fresh=True)
                point = Point(
                    best.cell,
                    best.number,
                    best.cell_name,
                    best.drawn,
                    best.values,
                    tuple(trials),
                    fresh=True,
                    asked_at=best.asked_at,
                )
                self._fresh[point.cell, point.number] = point
                self._files.put(point)
                return point
        return None

    def _unmeasured(self, study: Study) -> list[Point]:
        if not self._points.fresh_seeds or not study.exhausted:
            return []
        best = best_points(study.asked, self._points.search.objectives)[: self._points.search.remeasure.best]
        return [one for one in best if (one.cell, one.number) not in self._fresh]

    def _begin(self, point: Point) -> None:
        if self._has(point, self._lost):
            return
        self._open.append(point)
        self._queue.extend(point.trials)
        self._end_points()

    def _end_points(self) -> None:
        """Tells every open point whose trials are all in."""
        for point in [one for one in self._open if all(each.trial.id in self._results for each in one.trials)]:
            runs = [
                Run(one, self._results[one.trial.id], partial(self._trials.curve, one.trial.id)) for one in point.trials
            ]
            self._end(point, tell(self._points.search, runs))

    def _end(self, point: Point, told: Told, cut: tuple[str, ...] = ()) -> None:
        self._open.remove(point)
        if point.fresh:
            ended = point.with_end(
                state=told.state,
                told=told.values,
                rungs=dict(told.rungs),
                constraint=told.constraint,
                facts=dict(told.facts),
            )
            self._fresh[point.cell, point.number] = ended
            self._files.put(ended)
            return
        study = self._studies[point.cell]
        ended = study.tell(point.number, told, cut)
        self._files.put(ended)
        self._mirror.changed()

    def _shared(self, planned: PlannedTrial, point: Point) -> bool:
        """Whether another open point waits for a trial, too."""
        return any(self._has(one, {planned.trial.id}) for one in self._open if one is not point)

    @staticmethod
    def _has(point: Point, ids: set[str]) -> bool:
        return any(planned.trial.id in ids for planned in point.trials)
