"""What waits to be delivered: filled by the runner without ever blocking, emptied by one writer thread.

Bounded: live points are thinned before they come in and dropped when the server is away, and beyond `HELD` records only
the trial's id is kept, because its data is in storage anyway.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from keel_lab.result import Failure, Outcome
from keel_lab.track.record import Point, Record

HELD = 64  # records kept in memory with their curves, if they can be read back from storage
HELD_UNREADABLE = 512  # and if not
LIVE_EVERY = 1.0  # seconds between two flushes of live points
POINTS_HELD = 2000  # live points of one trial, should the writer be busy for long
STORED = frozenset({Outcome.COMPLETED, Outcome.DIVERGED})  # only these can be read back from storage later
TRIES = 3  # for one thing, while the server answers

Load = Callable[[str], Record]
Summary = tuple[Mapping[str, bytes], Mapping[str, float], Mapping[str, str]]  # files, metrics, tags
Kind = Literal["catch_up", "start", "live", "record", "fail", "kill", "summary"]
ENDS: tuple[Kind, ...] = ("record", "fail")  # of which each trial awaits one


@dataclass(frozen=True)
class Work:
    """One thing to deliver; `key` is a trial id where there is one."""

    kind: Kind
    key: str = ""
    payload: Any = None


class Outbox:
    """Thread-safe: the runner puts, the writer takes and says how it went.

    Attributes:
        away: why the server cannot be reached now; None while it answers.
        refused: what failed `TRIES` times although the server answered, with the last reason.
        news: monotonic time of the last sign of life.
        load: reads a recorded trial back from storage.
        delivered: digest of each trial's record that is on the server, as far as the cursor knows.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._starts: dict[str, None] = {}
        self._running: dict[str, None] = {}
        self._live: dict[str, list[Point]] = {}
        self._live_due = 0.0
        self._records: dict[str, Record | None] = {}
        self._skipped: set[str] = set()
        self._fails: dict[str, Failure] = {}
        self._recorded: set[str] = set()
        self._catch_up: list[str] | None = None
        self._summary: Summary | None = None
        self._kills: dict[str, None] = {}
        self._tries: Counter[tuple[Kind, str]] = Counter()
        self._in_hand: Work | None = None
        self.closing = False
        self.away: str | None = None
        self.refused: dict[tuple[Kind, str], str] = {}
        self.news = time.monotonic()
        self.load: Load | None = None
        self.delivered: dict[str, str] = {}

    def put_start(self, trial_id: str) -> None:
        """A trial runs."""
        with self._changed:
            self._recorded.discard(trial_id)
            self._starts[trial_id] = None
            self._running[trial_id] = None
            self._changed.notify()

    def put_live(self, trial_id: str, points: Iterable[Point]) -> None:
        """Live points; those that come after the trial's record are late and dropped."""
        with self._changed:
            if trial_id not in self._recorded:
                waiting = self._live.setdefault(trial_id, [])
                waiting.extend(points)
                del waiting[:-POINTS_HELD]
                self._changed.notify()

    def put_record(self, trial_id: str, record: Record) -> None:
        """A trial ended; what waited of its life is moot. One that was delivered just so before is skipped."""
        with self._changed:
            self._forget_life(trial_id)
            if self.delivered.get(trial_id) == record.digest() and trial_id not in self.waiting():
                self._skipped.add(trial_id)
                return
            held = sum(waiting is not None for waiting in self._records.values())
            if held < (HELD if self.load else HELD_UNREADABLE) or record.result.outcome not in STORED:
                self._records[trial_id] = record
            elif self.load is not None:
                self._records[trial_id] = None
            else:
                self.refused["record", trial_id] = self.away or "too many records waited"
            self._changed.notify()

    def _forget_life(self, trial_id: str) -> None:
        self._recorded.add(trial_id)
        for waiting in (self._starts, self._running, self._live):
            waiting.pop(trial_id, None)

    def put_fail(self, trial_id: str, failure: Failure) -> None:
        """A trial's retries are used up."""
        with self._changed:
            self._forget_life(trial_id)
            self._fails[trial_id] = failure
            self._changed.notify()

    def nothing_is_there(self) -> None:
        """The cursor was wrong: the server knows nothing of this sweep, so what was skipped is to be delivered."""
        with self._changed:
            self.delivered = {}
            for trial_id in self._skipped:
                if self.load is not None:
                    self._records.setdefault(trial_id, None)
                else:
                    self.refused["record", trial_id] = "its experiment was made anew"
            self._skipped = set()

    def put_catch_up(self, load: Load, done: Iterable[str]) -> None:
        """Trials in storage of which those not delivered yet are to be."""
        with self._changed:
            self.load = load
            self._catch_up = list(done)
            self._changed.notify()

    def catch_up(self, trial_ids: Iterable[str]) -> None:
        """Those not delivered are to be read back from storage."""
        with self._changed:
            for trial_id in trial_ids:
                if trial_id not in self.delivered:
                    self._records.setdefault(trial_id, None)

    def put_summary(self, files: Mapping[str, bytes], facts: Mapping[str, float], tags: Mapping[str, str]) -> None:
        """The sweep's summary; a newer one replaces it."""
        with self._changed:
            self._summary = (files, facts, tags)
            self._changed.notify()

    def close(self) -> None:
        """Nothing more comes: what waits is delivered at once, and what still ran did not come back."""
        with self._changed:
            self.closing = True
            self._kills = dict(self._running)
            self.news = time.monotonic()
            self._changed.notify()

    def take(self, delay: float) -> Work | None:
        """The next thing to deliver, not before `delay` seconds unless closing; None when closed and empty."""
        earliest = time.monotonic() + delay
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= earliest or self.closing:
                    if (work := self._next(now)) is not None:
                        self._in_hand = work
                        return work
                    if self.closing:
                        return None
                due = max(earliest, self._live_due if self._live else now + 3600.0)
                waits = earliest if now < earliest else due
                self._changed.wait(max(0.0, waits - now))

    def _next(self, now: float) -> Work | None:
        if self._catch_up is not None:
            ids, self._catch_up = self._catch_up, None
            return Work("catch_up", payload=ids)
        if self._starts:
            return Work("start", _pop_first(self._starts)[0])
        if self._live and (now >= self._live_due or self.closing):
            work = Work("live", *_pop_first(self._live))
            self._live_due = self._live_due if self._live else now + LIVE_EVERY
            return work
        if self._records:
            return Work("record", *_pop_first(self._records))
        if self._fails:
            return Work("fail", *_pop_first(self._fails))
        if self._summary is not None:
            summary, self._summary = self._summary, None
            return Work("summary", payload=summary)
        return Work("kill", _pop_first(self._kills)[0]) if self.closing and self._kills else None

    def succeeded(self) -> None:
        """The thing in hand is on the server."""
        with self._changed:
            if self._in_hand is not None:
                self.refused.pop((self._in_hand.kind, self._in_hand.key), None)
            self._in_hand = None
            self.news = time.monotonic()

    def failed(self, work: Work, reason: str, *, answers: bool) -> None:
        """It is not; it waits again, at the end, unless the server answers and it failed `TRIES` times."""
        with self._changed:
            self._in_hand = None
            if work.kind == "live":
                return  # the stored curve fills the gap when the trial is recorded
            what = (work.kind, work.key)
            self._tries[what] += answers
            if self._tries[what] >= TRIES:
                self.refused[what] = reason
            else:
                self._put_back(work)

    def _put_back(self, work: Work) -> None:
        if work.kind == "record":
            self._records.setdefault(work.key, work.payload)
        elif work.kind == "summary":
            self._summary = self._summary or work.payload
        elif work.kind == "catch_up":
            self._catch_up = self._catch_up or work.payload
        elif work.kind == "start" and work.key not in self._recorded:
            self._starts[work.key] = None
        elif work.kind == "fail":
            self._fails.setdefault(work.key, work.payload)
        elif work.kind == "kill":
            self._kills[work.key] = None

    def waiting(self) -> set[str]:
        """Trials whose newest record has not been delivered."""
        with self._changed:
            hand = {self._in_hand.key} if self._in_hand is not None and self._in_hand.kind in ENDS else set()
            refused = {key for kind, key in self.refused if kind in ENDS}
            return set(self._records) | set(self._fails) | refused | hand

    def left(self) -> tuple[int, bool]:
        """How many trials, and whether the summary, have not been delivered."""
        with self._changed:
            hand = self._in_hand or Work("live")
            trials = self.waiting()
            catch_up = hand.payload if hand.kind == "catch_up" else self._catch_up
            trials |= set(catch_up or ()) - set(self.delivered)
            summary = self._summary is not None or hand.kind == "summary" or ("summary", "") in self.refused
            return len(trials), summary


def _pop_first(waiting: dict[str, Any]) -> tuple[str, Any]:
    key = next(iter(waiting))
    return key, waiting.pop(key)
