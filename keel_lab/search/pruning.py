"""When a running point is cut: Optuna's pruner must say so at a rung, and the point must be no slow starter.

Optuna's pruners compare losses at equal tokens, and so cut what starts behind and would overtake, as Keel does beside
Pre-LN (docs/search.md shows it on real curves). By default (`spare_slow_starters`) a point is spared as long as its
pace between the last two rungs, kept to the end, would take it below where the best of the others is now. Loss curves
flatten, so this tangent is an optimistic bound: who is cut could overtake only by falling faster than before.
Divergence needs no pruner: such a run ends by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from keel_lab.schedule.executor import Progress
from keel_lab.search.samplers import NONE, SPARE
from keel_lab.spec.search import SearchSpec
from keel_lab.store.points import Point


class Pruning:
    """Keeps the rungs of running points, and decides."""

    def __init__(self, search: SearchSpec) -> None:
        self._on = search.pruner.name != NONE
        self._spare = bool(search.pruner.options.get(SPARE, True))
        self._rungs: dict[tuple[int, int], dict[str, dict[int, float]]] = {}
        self._cut: set[tuple[int, int]] = set()

    def note(self, point: Point, news: Progress) -> bool:
        """Takes in the rungs that a trial of a point has reached; says whether there may be something to decide."""
        found = news.info.get("rungs")
        if not self._on or not found:
            return False
        per_step = next(one.trial.tokens_per_step for one in point.trials if one.trial.id == news.trial_id)
        known = self._rungs.setdefault((point.cell, point.number), {})
        losses = {int(step) * per_step: float(loss) for step, loss in found if math.isfinite(loss)}
        new = losses != known.get(news.trial_id)
        known[news.trial_id] = losses
        return new and (point.cell, point.number) not in self._cut

    def rungs(self, point: Point) -> dict[int, float]:
        """Loss by tokens, the mean over its trials, at the rungs that all of them have reached."""
        known = self._rungs.get((point.cell, point.number), {})
        if len(known) < len(point.trials):
            return {}
        shared = set.intersection(*(set(losses) for losses in known.values()))
        return {tokens: sum(one[tokens] for one in known.values()) / len(known) for tokens in sorted(shared)}

    def cuts(self, point: Point, others: Sequence[Point], optuna_cuts: Callable[[Mapping[int, float]], bool]) -> bool:
        """Whether the point is to be stopped now."""
        rungs = self.rungs(point)
        if not rungs or not optuna_cuts(rungs):
            return False
        trial = point.trials[0].trial
        known = [self.known(one) for one in others if one.number != point.number]
        if self._spare and slow_starter(rungs, known, trial.schedule.steps * trial.tokens_per_step):
            return False
        self._cut.add((point.cell, point.number))
        return True

    def known(self, point: Point) -> Mapping[int, float]:
        """The rungs of another point, told or running."""
        return point.rungs or self.rungs(point)

    def was_cut(self, point: Point) -> bool:
        """Whether it was decided to cut the point."""
        return (point.cell, point.number) in self._cut


def slow_starter(rungs: Mapping[int, float], others: Sequence[Mapping[int, float]], end: int) -> bool:
    """Whether a point behind could still overtake: at its present pace it would pass the others' best of now.

    True, too, at the first rung, where no pace is known.

    Args:
        rungs: its loss by tokens.
        others: those of other points.
        end: tokens of a whole run.
    """
    marks = sorted(rungs)[-2:]
    best = min((one[marks[-1]] for one in others if marks[-1] in one), default=math.inf)
    if len(marks) < 2:
        return True
    pace = (rungs[marks[0]] - rungs[marks[1]]) / (marks[1] - marks[0])
    return rungs[marks[1]] - pace * (end - marks[1]) <= best
