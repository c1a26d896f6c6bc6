"""Which trials `keel-lab retry` runs again: failed ones. A result, a divergence included, is never run again."""

from __future__ import annotations

from collections.abc import Sequence

from keel_lab.errors import UsageError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.schedule.settled import settled_results
from keel_lab.store.lookup import find_trial
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials


def to_retry(name: str, wanted: Sequence[str], root: Root) -> list[PlannedTrial]:
    """The trials of a stored sweep that are to run again.

    Args:
        name: of the sweep.
        wanted: ids, prefixes or names of trials; none for every failed one.
        root: storage.

    Raises:
        UsageError: if there is no such sweep or trial, or a wanted trial has a result.
    """
    sweep, trials = Sweeps(root).load(name), Trials(root)
    done = settled_results(trials, sweep.trials, sweep.thresholds)
    if not wanted:
        left = [planned for planned in sweep.trials if planned.trial.id not in done]
        return [planned for planned in left if trials.attempts(planned.trial.id)]
    ids = {find_trial(root, text, name).trial_id for text in wanted}
    chosen = [planned for planned in sweep.trials if planned.trial.id in ids]
    finished = [f"{one.name} ({done[one.trial.id].outcome})" for one in chosen if one.trial.id in done]
    if finished:
        raise UsageError(
            f"sweep {name}: {', '.join(finished)} finished: a result is not run again; leave it out, or run the sweep "
            "with another seed or name for a repeat"
        )
    return chosen
