"""Which failed attempts are followed by another one (DESIGN section 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from keel_lab.result import Failure, FailureKind
from keel_lab.trial import Trial

RETRIES = 3
AT_MOST: Mapping[FailureKind, int] = {FailureKind.OOM: 1, FailureKind.TIMEOUT: 1}  # of these kinds
MORE_MEMORY = 2  # times what was declared, after an out-of-memory


class Retries:
    """Counts the failures of one run; another run of the sweep starts anew, so that a mended cause is tried again.

    A preemption by which a trial came further than it ever was costs no retry: on machines that others take back, a
    long trial is preempted as often as it takes.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, list[FailureKind]] = defaultdict(list)
        self._furthest: dict[str, int] = defaultdict(int)

    def after(self, trial: Trial, failure: Failure, stored: int | None = None) -> Trial | None:
        """The trial as it is to be tried again, with more memory after an out-of-memory; None if it has failed.

        Args:
            trial: as it was tried.
            failure: of the attempt that has ended.
            stored: the step that its last checkpoint holds now.
        """
        further = (stored or 0) > self._furthest[trial.id]
        self._furthest[trial.id] = max(stored or 0, self._furthest[trial.id])
        if failure.kind is FailureKind.PREEMPTED and further and not failure.final:
            return trial
        kinds = self._kinds[trial.id]
        kinds.append(failure.kind)
        most = AT_MOST.get(failure.kind, RETRIES)
        if failure.final or len(kinds) > RETRIES or kinds.count(failure.kind) > most:
            return None
        if failure.kind is not FailureKind.OOM:
            return trial
        resources = trial.resources.model_copy(update={"memory": MORE_MEMORY * trial.resources.memory})
        return trial.model_copy(update={"resources": resources})
