"""A command's way from an opened sweep to its exit code: lease, executor, storage, tracking, run, report."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from keel_lab.architecture import Catalogue
from keel_lab.curve import Curve
from keel_lab.detect.verdict import Verdict
from keel_lab.errors import IncompleteError
from keel_lab.plan.opening import OpenedSweep, changed
from keel_lab.plan.planned import PlannedTrial
from keel_lab.plan.siblings import with_forks
from keel_lab.result import TrialResult
from keel_lab.schedule import shipping
from keel_lab.schedule.cell_verdicts import told_worse
from keel_lab.schedule.deferred_executor import DeferredExecutor
from keel_lab.schedule.delivery import DeliveryCursor
from keel_lab.schedule.executor import Executor
from keel_lab.schedule.finishing import Reporting, finish, say
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.progress import Display, Mode, open_display
from keel_lab.schedule.proposer import ListProposer, Proposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.schedule.settled import settled_results
from keel_lab.schedule.summary import RunSummary
from keel_lab.search.opening import mirror_of, refuse_other_search, searching
from keel_lab.settings import Budget
from keel_lab.store import lease
from keel_lab.store.root import Root, StorageError
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.destination import NO_URI_NOTE, OFF, tracking_uri
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.tracker import NullTracker, Tracker
from keel_lab.track.usable import refuse_unusable


@dataclass(frozen=True)
class LaunchOptions:
    """How to run, as on the command line; None for what was not given.

    Attributes:
        executor: `ray` or `local`.
        ray_address: a running Ray cluster.
        tracking: MLflow's URI, or `off`.
        again: ids of the trials to run, whose failed attempts are forgotten; None for all that are left.
        max_failures: instead of the sweep's `budget.max_failures`.
        runtime_env: a YAML file: what workers of a running Ray cluster are to have, instead of the driver's code.
        progress: what is shown meanwhile, see `progress.MODES`.
    """

    executor: str = "ray"
    ray_address: str | None = None
    tracking: str | None = None
    again: frozenset[str] | None = None
    max_failures: int | None = None
    runtime_env: str | None = None
    progress: Mode = "auto"


def launch(
    opened: OpenedSweep,
    root: Root,
    catalogue: Catalogue,
    reporting: Reporting,
    options: LaunchOptions,
    show: Callable[[str], None],
) -> RunSummary:
    """Runs what is left of a sweep, and reports it.

    Args:
        opened: the sweep.
        root: storage.
        catalogue: writes its corpus.
        reporting: its report.
        options: how to run.
        show: is given the table when the sweep ends.

    Raises:
        KeelLabError: if it cannot be run as asked; nothing was run then.
    """
    uri = _tracking(options, root, opened.spec.name)
    mirror = mirror_of(opened, root, uri, say)
    for note in opened.notes:
        say(note)
    with ExitStack() as stack:
        with Interrupts() as interrupts, closing(_executor(options, opened, interrupts)) as executor:
            if _something_left(opened, root):
                executor.open()  # before anything is stored: it may refuse what the trials ask for
            held = stack.enter_context(lease.hold(root, opened.spec.name))
            before = Sweeps(root).find(opened.spec.name)
            refuse_other_search(before, opened)
            sweep = opened.store(root, catalogue)
            if change := changed(before, sweep):
                say(change)
            tracker = _tracker(sweep, root, uri)
            chosen, budget = _chosen(sweep, root, options.again), _budget(opened, options)
            skip = budget.skip_above_divergence
            proposer: Proposer = ListProposer(chosen, sweep.siblings, skip_above=skip, by_information=True)
            if opened.points is not None and mirror is not None:
                stack.enter_context(closing(mirror))
                proposer = searching(opened.points, sweep, root, lambda: executor.slots, mirror)
            with closing(_display(options, root)) as display:
                try:
                    summary = SweepRun(sweep, root, executor, tracker, proposer, display, budget, interrupts).run(held)
                except StorageError as error:
                    raise _left(error, sweep, interrupts) from error
            if executor.is_open:
                gc.collect()  # what ran thousands of trials refers to itself; the report needs the room
        if mirror is not None:
            sweep = Sweeps(root).load(sweep.name)
            if said := mirror.close():
                say(said)
        finish(summary, sweep, tracker, reporting, show)
    return summary


def _left(error: StorageError, sweep: StoredSweep, interrupts: Interrupts) -> IncompleteError:
    """A run that its storage ended: what it had stored is there, and the rest can be run."""
    left = IncompleteError(f"{error}\nwhat was stored is kept; go on with: keel-lab resume {sweep.name}")
    left.exit_code = interrupts.exit_code or left.exit_code
    return left


def _budget(opened: OpenedSweep, options: LaunchOptions) -> Budget:
    budget = opened.spec.budget
    most = options.max_failures
    return budget if most is None else budget.model_copy(update={"max_failures": most})


def _chosen(sweep: StoredSweep, root: Root, again: frozenset[str] | None) -> Sequence[PlannedTrial]:
    if again is None:
        return sweep.trials
    for trial_id in again:
        Trials(root).forget_attempts(trial_id)
    return [planned for planned in sweep.trials if planned.trial.id in again]


def _tracking(options: LaunchOptions, root: Root, name: str) -> str | None:
    """MLflow's URI, to which it can be written as far as that can be known; None for no tracking."""
    uri = tracking_uri(options.tracking, root.uri)
    if uri is not None:
        refuse_unusable(uri, name)
    elif options.tracking != OFF:
        say(NO_URI_NOTE)
    return uri


def _display(options: LaunchOptions, root: Root) -> Display:
    piped = options.progress == "auto" and not sys.stdout.isatty()  # whoever pipes our output wants lines
    mode: Mode = "lines" if piped else options.progress
    return open_display(sys.stderr, mode, Trials(root).step_costs)


def _something_left(opened: OpenedSweep, root: Root) -> bool:
    if opened.points is not None:
        return True  # who knows what a search will ask
    settled = settled_results(Trials(root), opened.plan.trials, opened.spec.thresholds, opened.spec.siblings)
    return any(one.trial.id not in settled for one in with_forks(opened.plan.trials, settled, opened.spec.siblings))


def _executor(options: LaunchOptions, opened: OpenedSweep, interrupts: Interrupts) -> DeferredExecutor:
    def open_it() -> Executor:
        executor = _open_executor(options, opened)
        interrupts.install()  # Ray has put a handler of its own in their place
        return executor

    return DeferredExecutor(open_it)


def _open_executor(options: LaunchOptions, opened: OpenedSweep) -> Executor:
    if options.executor == "local":
        from keel_lab.schedule.local_executor import LocalExecutor

        return LocalExecutor()
    from keel_lab.schedule.ray_executor import RayExecutor

    trials = [planned.trial for planned in opened.plan.trials]
    return RayExecutor(
        opened.spec.resources, options.ray_address, lambda: shipping.runtime_env(options.runtime_env, trials)
    )


def _tracker(sweep: StoredSweep, root: Root, uri: str | None) -> Tracker:
    if uri is None:
        return NullTracker()
    trials = Trials(root)
    stored = trials.results([planned.trial.id for planned in sweep.trials])
    planned_trials = with_forks(sweep.trials, stored, sweep.siblings)
    stored |= trials.results([one.trial.id for one in planned_trials if one.trial.id not in stored])
    known = replace(sweep, trials=tuple(planned_trials))
    tracker = MlflowTracker(known, root.uri, uri, DeliveryCursor(root, sweep.name))

    beside = told_worse(sweep, stored, Sweeps(root), root)

    def load(trial_id: str) -> tuple[TrialResult, Verdict, Curve, Verdict | None]:
        result = trials.results([trial_id])[trial_id]
        return result, result.verdict, trials.curve(trial_id), beside.get(trial_id)

    tracker.deliver_missing(load, stored)
    return tracker
