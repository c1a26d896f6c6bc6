"""Which failed attempts are followed by another one (DESIGN section 8)."""

from __future__ import annotations

from keel_lab.result import Failure, FailureKind
from keel_lab.trial import Trial

RETRIES = 3
OOM_RETRIES = 1
MORE_MEMORY = 2  # times what was declared, after an out-of-memory


class Retries:
    """Counts the failures of one run; another run of the sweep starts anew, so that a mended cause is tried again."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[FailureKind]] = {}

    def after(self, trial: Trial, failure: Failure) -> Trial | None:
        """The trial as it is to be tried again, with more memory after an out-of-memory; None if it has failed."""
        kinds = self._kinds.setdefault(trial.id, [])
        kinds.append(failure.kind)
        if failure.final or len(kinds) > RETRIES or kinds.count(FailureKind.OOM) > OOM_RETRIES:
            return None
        if failure.kind is not FailureKind.OOM:
            return trial
        resources = trial.resources.model_copy(update={"memory": MORE_MEMORY * trial.resources.memory})
        return trial.model_copy(update={"resources": resources})
