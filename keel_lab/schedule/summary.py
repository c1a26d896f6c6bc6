"""How a run of a sweep ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keel_lab.errors import IncompleteError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.siblings import with_forks
from keel_lab.plan.skipping import above_divergence
from keel_lab.result import Failure, Outcome, TrialResult
from keel_lab.store.stored_sweep import StoredSweep


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
        skipped: trials that need not run (on), since a lower LR diverged or a search's pruner stopped them.
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


def summarise(
    sweep: StoredSweep,
    settled: Mapping[str, TrialResult],
    given_up: Mapping[str, tuple[PlannedTrial, Failure]],
    *,
    reused: int,
    skip_above: bool,
    reason: str,
    signalled: int | None,
    warnings: tuple[str, ...],
    unasked: int = 0,
) -> RunSummary:
    """Counts what became of a sweep's trials, and of the forks that followed from them.

    Args:
        sweep: what was run.
        settled: results by id.
        given_up: trials whose retries are used up, by id.
        reused: how many of the results were there before.
        skip_above: see `Budget.skip_above_divergence`.
        reason: why trials may be left.
        signalled: exit code of the signal that stopped the run; None without one.
        warnings: see `RunSummary`.
        unasked: trials that a search has still to ask for.
    """
    planned = with_forks(sweep.trials, settled, sweep.siblings)
    total = {one.trial.id for one in planned} | settled.keys() | given_up.keys()
    verdicts = {trial_id: result.verdict for trial_id, result in settled.items()}
    skipped = above_divergence(sweep.trials, verdicts) - given_up.keys() if skip_above else frozenset()
    skipped |= sweep.cut - settled.keys() - given_up.keys()
    diverged = sum(result.outcome is Outcome.DIVERGED for result in settled.values())
    left = len(total) - len(settled) - len(given_up) - len(skipped) + unasked
    incomplete = signalled or IncompleteError.exit_code
    return RunSummary(
        completed=len(settled) - diverged,
        diverged=diverged,
        failed=len(given_up),
        left=left,
        reused=reused,
        exit_code=incomplete if left else 1 if given_up else 0,
        reason=reason if left else "",
        failures={one.name: failure for one, failure in given_up.values()},
        warnings=warnings,
        sweep=sweep.name,
        skipped=len(skipped),
    )
