"""The runner's policy: what is run, retried, bounded, stopped and summed up. Trials are real, on the local executor."""

from __future__ import annotations

import io
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace

import pytest

from keel_lab.errors import UsageError
from keel_lab.result import Failure, FailureKind
from keel_lab.schedule import news as news_module
from keel_lab.schedule.executor import Finished, Task
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.runner import SweepRun
from keel_lab.settings import Budget
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import NullTracker
from tests.toy_sweep import MEMORY, THRESHOLDS, refusal, toy_sweep, toy_trial
from tests.toy_trainer import starts


class Scripted(LocalExecutor):
    """A local executor whose tasks first fail as told; it notes what it was asked."""

    def __init__(self, failures=(), slots=1, largest=2**60) -> None:
        super().__init__()
        self._failures = {trial.id: list(kinds) for trial, kinds in failures}
        self._slots, self._largest = slots, largest
        self.tasks: list[Task] = []
        self.checked: list = []
        self.most = 0
        self.stopped = self.closed_now = False

    @property
    def slots(self):
        return self._slots

    def preflight(self, trials):
        self.checked += trials
        return super().preflight(trials)

    def submit(self, task):
        if task.trial.resources.memory > self._largest:
            raise UsageError("resources: no node has that much memory")
        self.tasks.append(task)
        super().submit(task)
        self.most = max(self.most, len(self._queue))

    def next_done(self, timeout):
        kinds = self._failures.get(self._queue[0].trial.id) if self._queue else None
        if kinds:
            return Finished(self._queue.popleft(), failure=Failure(kinds.pop(0), "as told", "node-1"))
        return super().next_done(timeout)

    def request_stop(self):
        self.stopped = True
        super().request_stop()

    def close(self, *, now=False):
        self.closed_now |= now
        super().close(now=now)


class Recorder(NullTracker):
    """Counts what a tracker is told."""

    def __init__(self):
        self.calls = []

    def started(self, planned):
        self.calls.append(("started", planned.trial.id))

    def live(self, news):
        self.calls.append(("live", len(news)))

    def record(self, planned, result, verdict, curve, beside=None):
        assert len(curve()) == result.steps
        assert verdict == result.verdict
        self.calls.append(("record", planned.trial.id))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SIDE", str(tmp_path / "side"))
    return Root.open(tmp_path / "store")


@pytest.fixture
def go(root):
    def run(sweep, executor=None, *, tracker=None, display=None, interrupts=None, proposer=None, **budget):
        with lease.hold(root, sweep.name) as held:
            return SweepRun(
                sweep,
                root,
                executor or Scripted(),
                tracker or NullTracker(),
                proposer or ListProposer(sweep.trials),
                display or PlainLines(io.StringIO()),
                Budget(**budget),
                interrupts or Interrupts(),
            ).run(held)

    return run


def counts(summary):
    return summary.completed, summary.diverged, summary.failed, summary.left, summary.reused, summary.exit_code


def test_a_sweep_runs_whole_and_its_judgements_are_stored(go, root):
    trials = [toy_trial(), toy_trial(seed=1), toy_trial(collapse_lr=0.01)]
    summary = go(toy_sweep(*trials))
    assert counts(summary) == (2, 1, 0, 0, 0, 0)
    assert (summary.reason, summary.failures, summary.warnings) == ("", {}, ())
    stored = Sweeps(root).judgements("toys", THRESHOLDS)
    assert stored == {trial.id: Trials(root).result(trial.id).verdict for trial in trials}


def test_a_storage_that_is_emptied_meanwhile_holds_the_sweep_and_what_follows(go, root):
    class Emptied(Scripted):
        def next_done(self, timeout):
            done = super().next_done(timeout)
            if done is not None and done.task.trial == first:
                shutil.rmtree(root.uri)
            return done

    first, second = toy_trial(seed=1), toy_trial(seed=2)
    said = io.StringIO()
    go(Sweeps(root).save(toy_sweep(first, second)), Emptied(), display=PlainLines(said))
    assert said.getvalue().count("was emptied while it is in use; the next resume runs what is gone") == 1
    assert Sweeps(root).names() == ["toys"]
    assert Trials(root).result(first.id) is None
    assert Trials(root).result(second.id) is not None
    again = Scripted()
    go(Sweeps(root).load("toys"), again)
    assert [task.trial for task in again.tasks] == [first]


def test_what_is_settled_is_not_run_again_but_told_and_tracked(go, root, tmp_path):
    shared, own = toy_trial(), toy_trial(seed=1)
    go(toy_sweep(shared, name="first"))
    tracker = Recorder()
    told = []

    class Telling(ListProposer):
        def tell(self, planned, result, verdict):
            told.append((planned.trial.id, verdict))

    sweep = toy_sweep(shared, own, name="second")
    assert counts(go(sweep, tracker=tracker, proposer=Telling(sweep.trials))) == (2, 0, 0, 0, 1, 0)
    assert starts(tmp_path / "side", shared.id) == [0]
    assert [trial_id for trial_id, _ in told] == [shared.id, own.id]
    assert ("started", shared.id) not in tracker.calls
    assert tracker.calls.count(("record", shared.id)) == tracker.calls.count(("record", own.id)) == 1
    assert tracker.calls.index(("started", own.id)) < tracker.calls.index(("record", own.id))
    assert set(Sweeps(root).judgements("second", THRESHOLDS)) == {shared.id, own.id}


def test_other_thresholds_judge_anew_and_train_on_only_where_they_must(go, root, tmp_path):
    healthy, collapsed = toy_trial(), toy_trial(collapse_lr=0.01)
    go(toy_sweep(healthy, collapsed))
    steps = Trials(root).result(collapsed.id).steps
    later = THRESHOLDS.model_copy(update={"confirm_samples": 40})
    assert counts(go(replace(toy_sweep(healthy, collapsed), thresholds=later))) == (1, 1, 0, 0, 1, 0)
    assert starts(tmp_path / "side", healthy.id) == [0]
    assert starts(tmp_path / "side", collapsed.id) == [0, steps]
    assert set(Sweeps(root).judgements("toys", later)) == {healthy.id, collapsed.id}


def test_a_failed_attempt_is_retried_and_the_others_run_once(go, root, tmp_path):
    flaky, other = toy_trial("toy_crash_once"), toy_trial()
    executor = Scripted()
    assert counts(go(toy_sweep(flaky, other), executor)) == (2, 0, 0, 0, 0, 0)
    assert [task.attempt for task in executor.tasks if task.trial == flaky] == [1, 2]
    assert starts(tmp_path / "side", other.id) == [0]
    assert [failure.kind for failure in Trials(root).attempts(flaky.id)] == [FailureKind.CRASH]


def test_three_retries_then_failed_and_reported(go, root):
    broken, other = toy_trial("toy_crash"), toy_trial()
    lines = io.StringIO()
    summary = go(toy_sweep(broken, other), display=PlainLines(lines))
    assert counts(summary) == (1, 0, 1, 0, 0, 1)
    assert list(summary.failures) == ["toy_crash-b4-s0"]
    assert "fell off the table" in summary.failures["toy_crash-b4-s0"].message
    assert len(Trials(root).attempts(broken.id)) == 4
    assert lines.getvalue().count("follows") == 3
    assert "toy_crash-b4-s0: failed, crash: ZeroDivisionError" in lines.getvalue()


def test_another_run_gives_a_failed_trial_its_retries_again(go, root):
    trial = toy_trial()
    kinds = [FailureKind.PREEMPTED] * 4
    assert counts(go(toy_sweep(trial), Scripted([(trial, kinds)]))) == (0, 0, 1, 0, 0, 1)
    executor = Scripted([(trial, kinds[:3])])
    assert counts(go(toy_sweep(trial), executor)) == (1, 0, 0, 0, 0, 0)
    assert [task.attempt for task in executor.tasks] == [5, 6, 7, 8]


def test_out_of_memory_is_retried_once_with_more_declared(go, root):
    trial = toy_trial()
    executor = Scripted([(trial, [FailureKind.OOM])])
    assert counts(go(toy_sweep(trial), executor)) == (1, 0, 0, 0, 0, 0)
    assert [task.trial.resources.memory for task in executor.tasks] == [MEMORY, 2 * MEMORY]
    other = toy_trial(seed=1)
    executor = Scripted([(other, [FailureKind.OOM] * 2)])
    assert counts(go(toy_sweep(other), executor)) == (0, 0, 1, 0, 0, 1)
    assert len(executor.tasks) == 2


def test_out_of_memory_where_no_more_can_be_had_fails_and_says_so(go):
    trial, other = toy_trial(), toy_trial(seed=1)
    summary = go(toy_sweep(trial, other), Scripted([(trial, [FailureKind.OOM])], largest=MEMORY))
    assert counts(summary) == (1, 0, 1, 0, 0, 1)
    assert "no node has that much memory" in summary.failures["toy-b4-s0"].message


def test_the_window_is_bounded(go):
    trials = [toy_trial(seed=seed, steps=20) for seed in range(12)]
    wide = Scripted(slots=4)
    go(toy_sweep(*trials[:10], name="a"), wide)
    assert wide.most == 8
    narrow = Scripted(slots=4)
    go(toy_sweep(*[toy_trial(seed=seed, steps=21) for seed in range(10)], name="b"), narrow, max_concurrent=3)
    assert narrow.most == 3


def test_a_budget_of_trials_bounds_each_run(go):
    sweep = toy_sweep(*[toy_trial(seed=seed, steps=20) for seed in range(5)])
    first = go(sweep, trials=3)
    assert counts(first) == (3, 0, 0, 2, 0, 3)
    assert first.reason == "the budget of 3 trials is used up"
    assert counts(go(sweep, trials=1)) == (4, 0, 0, 1, 3, 3)  # what `resume` does
    assert counts(go(sweep, trials=1)) == (5, 0, 0, 0, 4, 0)


def test_a_wall_time_stops_gracefully(go, root, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.002")
    sweep = toy_sweep(*[toy_trial(seed=seed) for seed in range(3)])
    executor = Scripted()
    summary = go(sweep, executor, wall_time=0.3)
    assert executor.stopped
    assert summary.exit_code == 3
    assert summary.left > 0
    assert summary.completed + summary.left == 3
    assert summary.reason == "the wall time of 0.3 s is over"


def test_a_wall_time_is_over_in_the_middle_of_a_trial_of_this_process(go, root, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SLEEP", "0.002")
    monkeypatch.setattr(news_module, "BATCH_EVERY", 0.0)
    sweep = toy_sweep(toy_trial(steps=2000))
    summary = go(sweep, wall_time=0.2)
    assert counts(summary) == (0, 0, 0, 1, 0, 3)
    assert 0 < Trials(root).checkpoint_step(sweep.trials[0].trial.id) < 2000


def test_news_of_a_trial_in_this_process_are_shown_while_it_runs(go, monkeypatch):
    monkeypatch.setattr(news_module, "BATCH_EVERY", 0.0)
    lines = io.StringIO()
    go(toy_sweep(toy_trial(steps=50), toy_trial(seed=1, steps=50)), display=PlainLines(lines, every=0.0))
    shown = [line for line in lines.getvalue().splitlines() if "trials, 1 running" in line]
    assert any("toy-b4-s0 20/50" in line for line in shown)
    assert all("ETA ?" not in line for line in shown if "toy-b4-s1 2" in line)


def test_preflight_reports_every_problem_at_once_and_nothing_is_run(go, root):
    trials = [toy_trial("toy_impossible_a"), toy_trial("toy_impossible_b"), toy_trial()]
    executor = Scripted()
    with pytest.raises(UsageError) as error:
        go(toy_sweep(*trials), executor)
    assert str(error.value).splitlines() == [refusal(f"toy_impossible_{x}") for x in "ab"]
    assert not executor.tasks
    assert not root.exists("trials")


def test_preflight_is_asked_once_per_shape_of_what_is_to_run(go):
    go(toy_sweep(toy_trial(collapse_lr=0.01)))
    executor = Scripted()
    go(toy_sweep(toy_trial(collapse_lr=0.01), *(toy_trial(seed=seed) for seed in range(3))), executor)
    assert executor.checked == [toy_trial()]


def test_a_tracker_or_display_that_fails_costs_no_result(go, root):
    class Broken:
        def __getattr__(self, name):
            def fail(*_):
                raise ConnectionError(f"{name} is away")

            return fail

    trials = [toy_trial(), toy_trial("toy_crash")]
    summary = go(toy_sweep(*trials), tracker=Broken(), display=Broken())
    assert counts(summary) == (1, 0, 1, 0, 0, 1)
    assert summary.warnings == (
        "display failed: ConnectionError: begin is away",
        "tracking failed: ConnectionError: started is away",
    )


def test_the_first_interrupt_stops_gracefully(go, tmp_path):
    class Interrupting(PlainLines):
        def finished(self, planned, result):
            super().finished(planned, result)
            os.kill(os.getpid(), signal.SIGINT)

    lines = io.StringIO()
    executor = Scripted(slots=2)
    with Interrupts() as interrupts:
        sweep = toy_sweep(*[toy_trial(seed=seed) for seed in range(6)])
        summary = go(sweep, executor, display=Interrupting(lines), interrupts=interrupts)
    assert executor.stopped
    assert not executor.closed_now
    assert counts(summary) == (1, 0, 0, 5, 0, 130)
    assert summary.reason == "interrupted by SIGINT"
    assert "interrupted by SIGINT: running trials checkpoint and stop" in lines.getvalue()
    assert Counter(len(starts(tmp_path / "side", each.trial.id)) for each in sweep.trials) == {1: 1, 0: 5}


def test_the_second_interrupt_stops_now_and_keeps_what_is_done(go, root):
    class Impatient(Scripted):
        def next_done(self, timeout):
            done = super().next_done(timeout)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            return done

    executor = Impatient()
    with Interrupts() as interrupts:
        summary = go(toy_sweep(*[toy_trial(seed=seed) for seed in range(3)]), executor, interrupts=interrupts)
    assert executor.closed_now
    assert summary.exit_code == 143
    assert summary.left == 3  # the first one's result is in storage; the next run finds it there
    assert counts(go(toy_sweep(*[toy_trial(seed=seed) for seed in range(3)]))) == (3, 0, 0, 0, 1, 0)


def test_an_interrupt_while_failing_leaves_the_trial_for_resume(go, monkeypatch):
    trial = toy_trial("toy_crash")
    with Interrupts() as interrupts:
        executor = Scripted()
        os.kill(os.getpid(), signal.SIGINT)
        assert counts(go(toy_sweep(trial), executor, interrupts=interrupts)) == (0, 0, 0, 1, 0, 130)
    assert not executor.tasks


def test_a_second_driver_is_refused(go, root):
    with lease.hold(root, "toys"), pytest.raises(UsageError, match=f"pid {os.getpid()}"):
        go(toy_sweep(toy_trial()))


def test_a_mistake_shared_by_all_does_not_fail_them_all(go):
    sweep = toy_sweep(*(toy_trial("toy_crash", seed=seed) for seed in range(6)), toy_trial())
    executor = Scripted()
    summary = go(sweep, executor, max_failures=2)
    assert counts(summary) == (0, 0, 2, 5, 0, 3)
    assert summary.reason == "2 trials have failed, as many as budget.max_failures allows"
    assert executor.stopped
    assert len(executor.tasks) <= 2 * 4 + 2  # four attempts each, and what was in the queue by then
