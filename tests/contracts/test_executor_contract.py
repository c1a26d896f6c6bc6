"""What every executor promises, on real trials of the toy trainer: in this process and on a local Ray."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from keel_lab.result import FailureKind, Outcome
from keel_lab.schedule.executor import Executor, Finished
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from tests.toy_sweep import outcome, refusal, toy_task, toy_trial
from tests.toy_trainer import starts

PATIENCE = 60.0  # seconds; only ever waited for when something is broken


@pytest.fixture(scope="module")
def side(tmp_path_factory):
    """Where toys note their starts; set before Ray starts, whose workers inherit it."""
    folder = tmp_path_factory.mktemp("side")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEEL_TOY_SIDE", str(folder))
        patch.setenv("KEEL_TOY_SLEEP", "0.001")
        yield folder


@pytest.fixture(scope="module")
def ray_running(side):
    from keel_lab.schedule.ray_executor import RayExecutor

    keeper = RayExecutor(toy_trial().resources)  # later ones join its Ray
    yield
    keeper.close()


@pytest.fixture(params=["local", "ray"])
def executor(request, side):
    if request.param == "local":
        made: Executor = LocalExecutor()
    else:
        request.getfixturevalue("ray_running")
        from keel_lab.schedule.ray_executor import RayExecutor

        made = RayExecutor(toy_trial().resources)
    yield made
    made.close()


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path / "store")


@pytest.fixture
def trial(request, root):
    """Trials that no other test has started: the side file counts by id."""
    seeds = iter(range(abs(hash(request.node.name)) % 10**9, 10**10))
    return lambda architecture="toy", **options: toy_trial(architecture, seed=next(seeds), **options)


def wait(executor: Executor, count: int) -> list[Finished]:
    until = time.monotonic() + PATIENCE
    done: list[Finished] = []
    while len(done) < count:
        assert time.monotonic() < until, f"only {len(done)} of {count} tasks came back"
        ended = executor.next_done(0.1)
        if ended is not None:
            done.append(ended)
    return done


def test_every_task_comes_back_once_with_its_result(executor, root, trial):
    trials = [trial() for _ in range(5)]
    for each in trials:
        executor.submit(toy_task(each, root))
    done = wait(executor, 5)
    assert Counter(ended.task.trial.id for ended in done) == Counter(each.id for each in trials)
    for ended in done:
        assert ended.failure is None
        assert ended.result.outcome is Outcome.COMPLETED
        assert Trials(root).result(ended.result.trial_id).to_json() == ended.result.to_json()
    assert executor.next_done(0.0) is None


def test_one_after_the_other_in_order_of_completion(executor, root, trial):
    trials = [trial() for _ in range(3)]
    for each in trials:
        executor.submit(toy_task(each, root))
        assert wait(executor, 1)[0].task.trial == each


def test_a_failure_is_reported_and_harms_no_other(executor, root, trial):
    bad, good = trial("toy_crash"), trial()
    executor.submit(toy_task(bad, root))
    executor.submit(toy_task(good, root))
    by_id = {ended.task.trial.id: ended for ended in wait(executor, 2)}
    assert by_id[bad.id].result is None
    assert by_id[bad.id].failure.kind is FailureKind.CRASH
    assert "the toy fell off the table" in by_id[bad.id].failure.message
    assert by_id[good.id].result.outcome is Outcome.COMPLETED
    executor.submit(toy_task(trial("toy_oom"), root))
    assert wait(executor, 1)[0].failure.kind is FailureKind.OOM


def test_progress_arrives_while_and_after_running(executor, root, trial):
    each = trial()
    executor.submit(toy_task(each, root))
    wait(executor, 1)
    until = time.monotonic() + PATIENCE
    news = []
    while not news or news[-1].step < 200:
        assert time.monotonic() < until, news
        news += executor.progress()
    assert {item.trial_id for item in news} == {each.id}
    assert {step for item in news for step, _, _ in item.points} == set(range(1, 201))
    assert all(item.info["host"] for item in news)


def test_a_trial_that_the_listener_names_stops_alone(executor, root, side, trial):
    long, short = trial(steps=20_000), trial()
    executor.listen(lambda news: [long.id] if news.trial_id == long.id and news.step > 0 else [])
    executor.submit(toy_task(long, root))
    executor.submit(toy_task(short, root))
    until, ended = time.monotonic() + PATIENCE, {}
    while len(ended) < 2:
        assert time.monotonic() < until, ended
        executor.progress()
        done = executor.next_done(0.1)
        if done is not None:
            ended[done.task.trial.id] = done
    assert ended[long.id].result.outcome is Outcome.STOPPED
    assert 0 < ended[long.id].result.steps < 20_000
    assert Trials(root).checkpoint_step(long.id) == ended[long.id].result.steps
    assert ended[short.id].result.outcome is Outcome.COMPLETED
    executor.listen(lambda news: ())


def test_asked_to_stop_it_leaves_checkpoints_and_begins_nothing(executor, root, side, trial):
    long = trial(steps=20_000)
    executor.submit(toy_task(long, root))
    if isinstance(executor, LocalExecutor):  # no one else is there to ask: a step of the trial itself does
        post = executor._mailbox.post
        executor._mailbox.post = lambda news: (executor.request_stop(), post(news))[1]
    else:
        until = time.monotonic() + PATIENCE
        while not any(item.step for item in executor.progress()):
            assert time.monotonic() < until
            time.sleep(0.02)
        executor.request_stop()
    stopped = wait(executor, 1)[0]
    assert stopped.result.outcome is Outcome.STOPPED
    assert 0 < stopped.result.steps < 20_000
    assert Trials(root).result(long.id) is None
    assert Trials(root).checkpoint(long.id, root.local("x")).step == stopped.result.steps
    queued = trial()
    executor.submit(toy_task(queued, root))
    assert wait(executor, 1)[0].result.outcome is Outcome.STOPPED
    assert starts(side, queued.id) == []


def test_a_second_attempt_goes_on_from_the_checkpoint_to_the_same_bytes(executor, root, side, trial, tmp_path):
    each = trial("toy_crash_once")
    executor.submit(toy_task(each, root))
    assert wait(executor, 1)[0].failure is not None
    executor.submit(toy_task(each, root, attempt=2))
    assert wait(executor, 1)[0].result.outcome is Outcome.COMPLETED
    assert starts(side, each.id) == [0, 25]
    reference = Root.open(tmp_path / "reference")
    executor.submit(toy_task(each, reference))
    wait(executor, 1)
    assert outcome(root, each) == outcome(reference, each)


def test_preflight_names_every_problem_and_no_other(executor, trial):
    impossible = [trial("toy_impossible_a"), trial(), trial("toy_impossible_b")]
    problems = executor.preflight(impossible)
    assert problems == [refusal(f"toy_impossible_{x}") for x in "ab"]


def test_it_has_slots_and_closes_twice(executor):
    assert 1 <= executor.slots <= os.cpu_count()
    executor.close()
    executor.close(now=True)
