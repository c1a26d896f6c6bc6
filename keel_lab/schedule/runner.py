"""Runs a sweep: keeps the executor busy, retries what failed, and never loses a result to a display or a mirror."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from functools import partial

from keel_lab.errors import UsageError
from keel_lab.plan.planned import PlannedTrial, Role
from keel_lab.plan.siblings import marks, with_forks
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.schedule.audience import Audience
from keel_lab.schedule.cell_verdicts import CellVerdicts
from keel_lab.schedule.executor import Executor, Finished, Progress, Task
from keel_lab.schedule.failures import Failures
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.live_snapshot import LiveSnapshot
from keel_lab.schedule.machine_load import wanted_every
from keel_lab.schedule.progress import Display
from keel_lab.schedule.proposer import Proposer
from keel_lab.schedule.settled import learn_by, settle, settled_results
from keel_lab.schedule.shapes import one_of_each_shape
from keel_lab.schedule.summary import RunSummary, summarise
from keel_lab.settings import Budget
from keel_lab.store.lease import Lease
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import Tracker
from keel_lab.trial import Trial

POLL = 0.2  # seconds


class SweepRun:
    """Runs once what is not settled yet of a stored sweep, and writes its judgements.

    The executor, tracker and display stay open, except that a second interrupt closes the executor at once.

    Args:
        sweep: what to run.
        root: where it is stored.
        executor: runs its trials.
        tracker: mirrors them.
        proposer: says which comes next.
        display: shows them.
        budget: bounds on this run.
        interrupts: entered after the executor was opened.
    """

    def __init__(
        self,
        sweep: StoredSweep,
        root: Root,
        executor: Executor,
        tracker: Tracker,
        proposer: Proposer,
        display: Display,
        budget: Budget,
        interrupts: Interrupts,
    ) -> None:
        self._sweep = sweep
        self._root = root.patient(lambda text: self._audience.note(text), lambda: interrupts.received is not None)
        self._trials = Trials(self._root)
        self._executor, self._proposer, self._budget, self._interrupts = executor, proposer, budget, interrupts
        self._audience = Audience(display, tracker, LiveSnapshot(root, sweep.name), self._trials.curve)
        self._deadline = time.monotonic() + (budget.wall_time or float("inf"))
        self._settled: dict[str, TrialResult] = {}
        self._reused: frozenset[str] = frozenset()
        self._flight: dict[str, PlannedTrial] = {}
        self._heard: set[int] = set()  # news that were shown when they came
        self._known: set[str] = set()
        self._sample_every = wanted_every()
        self._failures = Failures(self._trials, executor, self._audience)
        self._reason = ""

    def run(self, held: Lease) -> RunSummary:
        """Runs it, under the sweep's lease.

        Raises:
            UsageError: if the trainers refuse trials (all problems in one error); nothing was run then.
            StorageError: if the storage fails the runner itself, or the lease was lost.
        """
        self._interrupts.on_stop(self._executor.request_stop)
        self._executor.listen(self._hear)
        self._settled = settled_results(self._trials, self._sweep.trials, self._sweep.thresholds, self._sweep.siblings)
        self._reused = frozenset(self._settled)
        self._cells = CellVerdicts(self._sweep, self._settled, Sweeps(self._root), self._trials, self._root)
        try:
            if self._interrupts.received is None:
                self._preflight()
            planned = with_forks(self._sweep.trials, self._settled, self._sweep.siblings)
            self._known = {one.trial.id for one in planned}
            self._audience.begin(planned, dict(self._settled))
            self._loop(held)
        except KeyboardInterrupt:
            if self._interrupts.received is None:
                raise
            self._executor.close(now=True)
        if points := self._proposer.points():
            self._sweep = self._sweep.with_points(points)
            self._cells = CellVerdicts(self._sweep, self._settled, Sweeps(self._root), self._trials, self._root)
        for judged in self._cells.finish():
            self._audience.judged(judged[0], self._settled[judged[0].trial.id], judged[1])
        self._executor.listen(lambda news: ())  # it lives on, and need not keep all this alive
        return self._summary()

    def _loop(self, held: Lease) -> None:
        while True:
            self._look_for_stop()
            self._fill()
            self._news()
            if not self._flight:
                return
            held.check()
            done = self._executor.next_done(0.0 if self._cells.waiting else POLL)
            if done is not None:
                self._ended(done)
            judged = self._cells.next()
            if judged is not None:
                self._audience.judged(judged[0], self._settled[judged[0].trial.id], judged[1])

    def _preflight(self) -> None:
        """Once per architecture and shape, and only for what is to run."""
        left = [planned.trial for planned in self._sweep.trials if planned.trial.id not in self._settled]
        problems = self._executor.preflight(one_of_each_shape([*left, *self._proposer.samples()]))
        if problems:
            raise UsageError("\n".join(dict.fromkeys(problems)))

    def _look_for_stop(self) -> None:
        if self._interrupts.received is not None and not self._reason:
            self._stop(f"interrupted by {signal.Signals(self._interrupts.received).name}")
        elif time.monotonic() >= self._deadline and not self._reason:
            self._stop(f"the wall time of {self._budget.wall_time:g} s is over")

    def _stop(self, reason: str) -> None:
        self._reason = reason
        self._executor.request_stop()
        self._audience.note(f"{reason}: running trials checkpoint and stop; Ctrl-C (again) stops now")

    def _fill(self) -> None:
        window = 2 * self._executor.slots  # a queue as long as what runs: Ray sees the demand, and no slot waits for us
        if self._budget.max_concurrent is not None:
            window = min(window, self._budget.max_concurrent)
        while not self._reason and len(self._flight) < window:
            again = self._failures.next()
            planned = self._propose() if again is None else again[0]
            if planned is None:
                return
            self._submit(planned, planned.trial if again is None else again[1])

    def _propose(self) -> PlannedTrial | None:
        """The next trial that has to run; those that are settled are passed on at once."""
        while True:
            used = len(self._settled) - len(self._reused) + len(self._flight) + len(self._failures.given_up)
            over = self._budget.trials is not None and used >= self._budget.trials
            planned = None if over else self._proposer.ask()
            if planned is None:
                return None
            settled = self._settled.get(planned.trial.id) or self._found(planned)
            if settled is None:
                return planned
            self._proposer.tell(planned, settled, settled.verdict)
            self._audience.reused(planned, settled, self._cells.of(planned))

    def _found(self, planned: PlannedTrial) -> TrialResult | None:
        """The result, if storage has it, of a trial that was not planned when the run began."""
        trial_id = planned.trial.id
        if trial_id in self._known:
            return None
        stored = self._trials.result(trial_id)
        result = settle(planned.trial, stored, partial(self._trials.curve, trial_id), self._sweep.thresholds)
        if result is not None:
            self._settled[trial_id] = result
            self._reused |= {trial_id}
            self._known.add(trial_id)
        return result

    def _submit(self, planned: PlannedTrial, trial: Trial) -> None:
        self._cells.begin()
        self._trials.put_trial(planned.trial)
        attempt = len(self._trials.attempts(trial.id)) + 1
        by = learn_by(planned, self._settled, self._sweep.siblings)
        keep = marks(trial, self._sweep.siblings) if planned.role is Role.TRIAL else ()
        try:
            sweep, seconds = self._sweep, self._budget.trial_time
            told = (attempt, by, keep, seconds, sweep.rungs, self._sample_every)
            task = Task(trial, sweep.thresholds, self._root.uri, *told)
            self._executor.submit(task)
        except UsageError as error:
            if trial.resources == planned.trial.resources:
                raise
            self._give_up(planned, Failure(FailureKind.OOM, f"out of memory, and with more declared: {error}"))
        else:
            self._flight[trial.id] = planned
            if trial.id not in self._known:
                self._known.add(trial.id)
                self._audience.joined(planned)

    def _news(self) -> None:
        news = [item for item in self._executor.progress() if item.trial_id in self._flight]
        self._audience.news([item for item in news if id(item) not in self._heard], self._flight)
        self._heard.clear()

    def _hear(self, item: Progress) -> Iterable[str]:
        """News at once, and a look whether time is over: in this process a trial runs on until it is asked to stop."""
        if item.trial_id in self._flight:
            self._audience.news([item], self._flight)
            self._heard.add(id(item))
        self._look_for_stop()
        return self._proposer.hear(item)

    def _ended(self, done: Finished) -> None:
        planned = self._flight.pop(done.task.trial.id)
        if done.result is None:
            if self._failures.is_final(planned, done, stopping=bool(self._reason)):
                assert done.failure is not None
                self._give_up(planned, done.failure)
        elif (result := done.result).outcome is not Outcome.STOPPED:
            self._failures.ended_well(done.node)
            if Sweeps(self._root).keep(self._sweep):
                self._audience.note(f"{self._root} was emptied while it is in use; the next resume runs what is gone")
            self._settled[planned.trial.id] = result
            self._proposer.tell(planned, result, result.verdict)
            self._audience.finished(planned, result)
            self._cells.settled(planned)
        elif self._proposer.stopped(planned):
            self._audience.cut(planned)

    def _give_up(self, planned: PlannedTrial, failure: Failure) -> None:
        self._failures.give_up(planned, failure)
        self._proposer.failed(planned)
        given_up, most = len(self._failures.given_up), self._budget.max_failures
        if most is not None and given_up >= most and not self._reason:
            self._stop(f"{most} trial{'s have' if most > 1 else ' has'} failed, as many as budget.max_failures allows")

    def _summary(self) -> RunSummary:
        used_up = "" if self._budget.trials is None else f"the budget of {self._budget.trials} trials is used up"
        return summarise(
            self._sweep,
            self._settled,
            self._failures.given_up,
            reused=len(self._reused),
            skip_above=self._budget.skip_above_divergence,
            reason=self._reason or used_up,
            signalled=self._interrupts.exit_code,
            warnings=tuple(self._audience.warnings.values()),
            unasked=self._proposer.left(),
        )
