"""The thread that empties the outbox into MLflow, through a mirror that it opens again after any error."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from keel_lab.plan.planned import PlannedTrial
from keel_lab.track.destination import shown
from keel_lab.track.mirror import Mirror
from keel_lab.track.outbox import STORED, Outbox, Work
from keel_lab.track.reason import NO_ANSWER, reason, understood
from keel_lab.track.record import Clock

log = logging.getLogger(__name__)

ENVIRONMENT = {  # set before MLflow is imported, unless the user has
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # waiting between tries is the writer's, which can be told to stop
}
BACK_OFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds between two tries to reach a server that is away
SAVE_EVERY = 2.0  # seconds between two writes of the cursor; a lost one only means delivering again


class Cursor(Protocol):
    """Where the sweep's storage keeps what was delivered (JSON-ready)."""

    def load(self) -> dict[str, Any]:
        """What was last saved; empty at first."""

    def save(self, state: dict[str, Any]) -> None:
        """Keeps the state."""


class Writer(threading.Thread):
    """Empties the outbox into a mirror that it opens, and opens again after any error."""

    def __init__(
        self,
        outbox: Outbox,
        planned: Mapping[str, PlannedTrial],
        opener: Callable[[str], Mirror],
        cursor: Cursor,
        uri: str,
    ) -> None:
        super().__init__(name="keel-lab-mlflow", daemon=True)
        self._outbox, self._planned, self._opener, self._cursor, self._uri = outbox, planned, opener, cursor, uri
        self._mirror: Mirror | None = None
        self._state = {"trials": {}, **cursor.load()}
        if self._state.get("target", "").rpartition("#")[0] == shown(uri):
            outbox.delivered = dict(self._state["trials"])
        self._clocks: dict[str, Clock] = {}
        self._saved = 0.0
        self._full = False
        self.imported = False
        self.experiment_id: str | None = None
        self.cursor_error: str | None = None

    def run(self) -> None:
        """Until the outbox is closed and empty, or closed and the server away."""
        failures = 0
        self._connect()  # a new SQLite file is made now, before anybody else looks at it
        while (work := self._outbox.take(BACK_OFF[min(failures, len(BACK_OFF)) - 1] if failures else 0.0)) is not None:
            if self._mirror is None and not self._connect():
                failures += 1
                self._outbox.failed(work, self._outbox.away or "", answers=False)
                if self._outbox.closing and self._outbox.away != NO_ANSWER:  # `close` bounds the wait for a slow one
                    break
                continue
            failures = 0 if self._try(work) else failures + 1
            if failures and self._outbox.closing:
                break
        self._save()

    def _connect(self) -> bool:
        try:
            self._mirror = self._open()
        except Exception as error:  # noqa: BLE001 - MLflow and its drivers raise anything; said, and tried again
            self._is_away(reason(error, self._uri))
            return False
        if not self._full:
            self._is_back()
        self._outbox.news = time.monotonic()
        return True

    def _is_away(self, why: str) -> None:
        if self._outbox.away is None:
            log.warning("MLflow at %s takes nothing now: %s; training goes on", shown(self._uri), why)
        self._outbox.away = why

    def _is_back(self) -> None:
        if self._outbox.away is not None:
            log.warning("MLflow at %s takes what it is told again", shown(self._uri))
        self._outbox.away = None

    def _open(self) -> Mirror:
        if not self._state.get("origin"):
            fresh = {**self._state, "origin": uuid.uuid4().hex[:12]}
            self._cursor.save(fresh)  # first of all: by it the next driver finds its runs again
            self._state = fresh
        if not self.imported:
            import_mlflow(self._uri)
            self.imported = True
            self._outbox.news = time.monotonic()
        mirror = self._opener(self._state["origin"])
        if self._state.get("target") != mirror.target:  # another server, or the experiment was made anew
            self._state["target"] = mirror.target
            self._outbox.nothing_is_there()
        self.experiment_id = mirror.experiment_id
        return mirror

    def _try(self, work: Work) -> bool:
        """Delivers the work, or puts it back; False if the next try has to wait, as on a full disk."""
        try:
            self._deliver(work)
        except Exception as error:  # noqa: BLE001 - as above; nothing of it may reach the runner
            why = understood(error, self._uri)
            log.info("MLflow: %s %s not delivered: %s", work.kind, work.key, why.text)
            self._mirror = None  # what it knew of the server may be wrong now
            answers = self._connect()
            self._full = answers and why.waits and why.text != NO_ANSWER  # it can be read, and not be written
            if self._full:
                self._is_away(why.text)
            self._outbox.failed(work, why.text, answers=answers and not self._full)
            return not self._full
        self._full = False
        self._is_back()
        self._outbox.succeeded()
        return True

    def _deliver(self, work: Work) -> None:
        mirror = self._mirror
        assert mirror is not None
        if work.kind == "catch_up":
            self._outbox.catch_up(work.payload)
        elif work.kind == "start":
            mirror.start(self._planned[work.key])
        elif work.kind == "live":
            mirror.live(self._planned[work.key], work.payload, self._clocks.setdefault(work.key, {}))
        elif work.kind == "fail":
            mirror.fail(self._planned[work.key], work.payload)
        elif work.kind == "kill":
            mirror.kill(self._planned[work.key])
        elif work.kind == "summary":
            mirror.summary(*work.payload)
        else:
            self._record(mirror, work)

    def _record(self, mirror: Mirror, work: Work) -> None:
        record = work.payload
        if record is None:
            assert self._outbox.load is not None
            record = self._outbox.load(work.key)
        mirror.record(record, self._clocks.get(work.key, {}))
        if record.result.outcome in STORED:
            self._clocks.pop(work.key, None)
            self._outbox.delivered[work.key] = record.digest()
            if time.monotonic() > self._saved + SAVE_EVERY:
                self._save()

    def _save(self) -> None:
        if not self._state.get("origin"):
            return
        try:
            waiting = self._outbox.waiting()  # among them trials judged or run again, whose old record no longer counts
            there = {key: value for key, value in dict(self._outbox.delivered).items() if key not in waiting}
            self._cursor.save({**self._state, "trials": there})
            self.cursor_error = None
        except Exception as error:  # noqa: BLE001 - storage's own errors; said at close
            self.cursor_error = reason(error, self._uri)
        self._saved = time.monotonic()


def import_mlflow(uri: str = "") -> None:
    """Imports MLflow with our settings; makes the folder of a new SQLite file, if that is the URI."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if uri.startswith("sqlite"):
        Path(uri.split("://", 1)[1][1:]).parent.mkdir(parents=True, exist_ok=True)
    import_module("mlflow.tracking")
