"""What waits, in which order it goes out, and how failures are counted; no server, no threads."""

import pytest

from keel_lab.curve import Curve
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.track import outbox as module
from keel_lab.track.outbox import Outbox, Work
from keel_lab.track.record import Record


def record(trial_id, outcome=Outcome.COMPLETED, status=Status.HEALTHY):
    verdict = Verdict(status)
    return Record(None, TrialResult(trial_id, outcome, 1, verdict, {}), verdict, Curve())


def drained(outbox):
    """Everything that goes out, each successfully."""
    outbox.close()
    found = []
    while (work := outbox.take(0.0)) is not None:
        found.append((work.kind, work.key))
        outbox.succeeded()
    return found


def test_a_run_starts_before_it_lives_and_lives_before_it_ends():
    outbox = Outbox()
    outbox.put_live("a", [(1, 0, {"loss": 1.0})])
    outbox.put_start("a")
    outbox.put_record("b", record("b"))
    outbox.put_summary({}, {}, {})
    kinds = []
    for _ in range(4):
        kinds.append(outbox.take(0.0).kind)
        outbox.succeeded()
    assert kinds == ["start", "live", "record", "summary"]


def test_what_started_and_did_not_come_back_is_killed_at_the_end():
    outbox = Outbox()
    for trial_id in ("ended", "failed", "lost"):
        outbox.put_start(trial_id)
    outbox.put_record("ended", record("ended"))
    outbox.put_fail("failed", Failure(FailureKind.CRASH, "boom"))
    assert drained(outbox) == [("start", "lost"), ("record", "ended"), ("fail", "failed"), ("kill", "lost")]
    assert outbox.left() == (0, False)


def test_late_live_points_are_dropped_until_the_trial_runs_again():
    outbox = Outbox()
    outbox.put_record("a", record("a"))
    outbox.put_live("a", [(1, 0, {})])
    assert outbox.take(0.0).kind == "record"
    outbox.succeeded()
    outbox.put_start("a")
    outbox.put_live("a", [(2, 0, {})])
    assert [outbox.take(0.0).kind for _ in range(2)] == ["start", "live"]


def test_live_points_are_bounded_and_keep_the_newest():
    outbox = Outbox()
    for step in range(module.POINTS_HELD + 5):
        outbox.put_live("a", [(step, 0, {})])
    kept = outbox.take(0.0).payload
    assert len(kept) == module.POINTS_HELD
    assert kept[-1][0] == module.POINTS_HELD + 4


def test_records_beyond_the_bound_are_read_back_from_storage(monkeypatch):
    monkeypatch.setattr(module, "HELD", 2)
    outbox = Outbox()
    outbox.put_catch_up(record, [])
    assert outbox.take(0.0).kind == "catch_up"
    outbox.succeeded()
    for trial_id in "abcd":
        outbox.put_record(trial_id, record(trial_id))
    outbox.put_record("e", record("e", Outcome.STOPPED))  # not in storage
    payloads = [outbox.take(0.0).payload for _ in range(5)]
    assert [payload is None for payload in payloads] == [False, False, True, True, False]


def test_without_a_way_back_they_are_said_to_be_undelivered(monkeypatch):
    monkeypatch.setattr(module, "HELD_UNREADABLE", 1)
    outbox = Outbox()
    outbox.put_record("a", record("a"))
    outbox.put_record("b", record("b"))
    assert outbox.left() == (2, False)
    assert drained(outbox) == [("record", "a")]
    assert outbox.left() == (1, False)


def test_what_was_delivered_just_so_is_skipped_and_a_new_judgement_is_not():
    outbox = Outbox()
    outbox.delivered = {"a": record("a").digest(), "b": record("b").digest()}
    outbox.put_record("a", record("a"))
    outbox.put_record("b", record("b", status=Status.TRANSIENT))
    assert drained(outbox) == [("record", "b")]


@pytest.mark.parametrize("readable", [True, False])
def test_a_wrong_cursor_loses_nothing(readable):
    outbox = Outbox()
    outbox.load = record if readable else None
    outbox.delivered = {"a": record("a").digest()}
    outbox.put_record("a", record("a"))
    outbox.nothing_is_there()
    assert outbox.left() == (1, False)
    assert drained(outbox) == ([("record", "a")] if readable else [])


def test_an_outage_costs_no_try_and_an_error_of_its_own_three():
    outbox = Outbox()
    outbox.put_record("a", record("a"))
    for _ in range(10):
        outbox.failed(outbox.take(0.0), "connection refused", answers=False)
    for left in (True, True, False):
        outbox.failed(outbox.take(0.0), "bad value", answers=True)
        assert bool(outbox._records) is left
    assert outbox.refused == {("record", "a"): "bad value"}
    assert outbox.left() == (1, False)


def test_failed_live_points_are_dropped_and_a_newer_summary_wins():
    outbox = Outbox()
    outbox.put_live("a", [(1, 0, {})])
    outbox.failed(outbox.take(0.0), "away", answers=False)
    outbox.put_summary({"old": b""}, {}, {})
    old = outbox.take(0.0)
    outbox.put_summary({"new": b""}, {}, {})
    outbox.failed(old, "away", answers=False)
    work = outbox.take(0.0)
    assert work == Work("summary", payload=({"new": b""}, {}, {}))


def test_what_is_in_hand_when_time_is_up_counts_as_undelivered():
    outbox = Outbox()
    outbox.put_catch_up(record, ["a", "b"])
    outbox.delivered = {"a": "digest"}
    outbox.take(0.0)
    assert outbox.left() == (1, False)
    outbox.catch_up(["a", "b"])
    outbox.succeeded()
    outbox.take(0.0)
    assert outbox.left() == (1, False)
