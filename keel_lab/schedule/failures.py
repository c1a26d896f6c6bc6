"""What becomes of attempts that fail: they are made again, or their trial is given up."""

from __future__ import annotations

from collections import deque

from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure
from keel_lab.schedule.audience import Audience
from keel_lab.schedule.executor import Executor, Finished
from keel_lab.schedule.node_health import IN_A_ROW, NodeHealth
from keel_lab.schedule.retries import Retries
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


class Failures:
    """Those of one run of a sweep; a node on which trials die in a row is set aside.

    Attributes:
        given_up: by id, what was given up and what it last failed of.
    """

    def __init__(self, trials: Trials, executor: Executor, audience: Audience) -> None:
        self._trials, self._executor, self._audience = trials, executor, audience
        self._retries, self._health = Retries(), NodeHealth()
        self._again: deque[tuple[PlannedTrial, Trial]] = deque()
        self.given_up: dict[str, tuple[PlannedTrial, Failure]] = {}

    def next(self) -> tuple[PlannedTrial, Trial] | None:
        """One that is to be tried again, as it is to be run now."""
        return self._again.popleft() if self._again else None

    def ended_well(self, node: str) -> None:
        """A trial came to its end on this node."""
        self._health.ended_well(node)

    def is_final(self, planned: PlannedTrial, done: Finished, *, stopping: bool) -> bool:
        """Stores a failed attempt; whether to give its trial up. Else it is tried again or, when `stopping`, left.

        Raises:
            StorageError: if the storage fails.
        """
        failure, trial = done.failure, done.task.trial
        assert failure is not None
        if not failure.final and self._health.died(done.node, trial.id) and self._executor.avoid(done.node):
            self._audience.note(
                f"{IN_A_ROW} trials in a row died on {failure.node or done.node}: it is set aside, the others go on"
            )
        number = self._trials.add_attempt(trial.id, failure)
        again = self._retries.after(trial, failure, self._trials.checkpoint_step(trial.id))
        if stopping:
            return False  # left for resume
        if again is None:
            return True
        self._again.append((planned, again))
        self._audience.retried(planned, failure, number + 1)
        return False

    def give_up(self, planned: PlannedTrial, failure: Failure) -> None:
        """This trial has failed for good, in this run."""
        self.given_up[planned.trial.id] = (planned, failure)
        self._audience.failed(planned, failure)
