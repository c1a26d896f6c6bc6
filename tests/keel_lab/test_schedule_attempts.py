"""What a Ray executor knows of the attempts under way, from what they say."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import Future

from keel_lab.schedule.executor import Progress
from keel_lab.schedule.ray_attempts import GRACE, WAITING, Attempts
from keel_lab.store.root import Root
from tests.toy_sweep import toy_task, toy_trial


class Ref:
    """As much of a Ray reference as is asked for."""

    def future(self):
        return Future()


def news_of(trial, state="healthy", **info):
    return Progress(trial.id, 0, float("nan"), state, info=info)


def test_a_trial_stays_on_its_node_whatever_later_news_leave_out(tmp_path):
    attempts, trial = Attempts(), toy_trial()
    attempts.add(toy_task(trial, Root.open(tmp_path)), Ref())
    attempts.hear([news_of(trial, host="h", node="n"), news_of(trial, host="h")])
    (attempt,) = attempts
    assert (attempt.host, attempt.node) == ("h", "n")


def test_the_time_of_a_group_begins_when_its_workers_have_a_place(tmp_path):
    attempts, trial = Attempts(), toy_trial()
    task = dataclasses.replace(toy_task(trial, Root.open(tmp_path)), seconds=1.0)
    attempts.add(task, Ref())
    attempts.hear([news_of(trial, WAITING, host="head", node="n")])
    (attempt,) = attempts
    assert (attempt.node, attempt.begun) == ("n", None)
    attempts.hear([news_of(trial, "starting", host="w", node="m")])
    assert attempt.node == "m"
    assert attempt.begun is not None
    assert not list(attempts.hanging())
    attempt.begun = time.monotonic() - GRACE - 2.0
    assert list(attempts.hanging()) == [attempt]


def test_where_a_trial_died_is_remembered_by_trial(tmp_path):
    attempts, root = Attempts(), Root.open(tmp_path)
    one, other = toy_trial(seed=1), toy_trial(seed=2)
    for trial in (one, other):
        attempts.add(toy_task(trial, root), Ref())
        attempts.hear([news_of(trial, host="h", node="n")])
    for attempt in attempts:
        attempts.end(attempt, died=attempt.task.trial.id == one.id)
    assert (attempts.died_on(one.id), attempts.died_on(other.id)) == ({"n"}, set())
