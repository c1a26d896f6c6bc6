"""How a run of a sweep ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keel_lab.result import Failure


@dataclass(frozen=True)
class RunSummary:
    """How a run of a sweep ended. `completed + diverged + failed + left + skipped` is the number of its trials.

    Attributes:
        completed, diverged: trials that have their result, those of earlier runs included.
        failed: trials whose retries are used up in this run.
        left: trials that `keel-lab resume` has to run (on); failed ones are tried again as well.
        reused: results that were there before.
        exit_code: 0 complete, 1 some failed, 3 incomplete, 130 or 143 after a signal.
        reason: why trials are left, as a clause; "" if none are, or only failed ones.
        failures: the last failure of each failed trial, by the trial's name.
        warnings: what did not work but cost no result, one sentence each.
        sweep: its name.
        skipped: trials that need not run, since a lower LR diverged.
    """

    completed: int
    diverged: int
    failed: int
    left: int
    reused: int
    exit_code: int
    reason: str = ""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sweep: str = ""
    skipped: int = 0
