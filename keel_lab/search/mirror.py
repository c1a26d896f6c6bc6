"""The studies of a sweep in an Optuna storage (SQLite, PostgreSQL, a journal file), for optuna-dashboard to show.

A mirror: what is in it follows from the stored points and can be made again. A thread of its own writes it, so that a
storage that is away or hangs costs no point and no time; it is tried again, and catches up. All that is said once.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keel_lab.search.mirror_storage import JOURNAL, close_storage, open_storage, why
from keel_lab.search.mirrored import MirroredStudies, Shown
from keel_lab.track.destination import shown

if TYPE_CHECKING:
    from keel_lab.search.study import Study

RETRY = (2.0, 5.0, 15.0, 60.0)  # seconds before the next try
PATIENCE = 30.0  # seconds that the end of a search waits for its mirror


class Mirror:
    """Keeps a storage where the studies are.

    Args:
        url: as from `mirror_url`; None to mirror nothing.
        sweep: whose studies are named `SWEEP: CELL`.
        say: is told that the storage cannot be written, and when it can be again. Not the log: a trial of this process
            has that for itself.
        own: whether nobody else writes to the storage.
    """

    def __init__(self, url: str | None, sweep: str, say: Callable[[str], None], *, own: bool = True) -> None:
        self._url, self._sweep, self._say, self._own = url, sweep, say, own
        self._place = "" if url is None else shown(url.removeprefix(JOURNAL))
        self._studies: list[Study] = []
        self._wake, self._end = threading.Event(), threading.Event()
        self._open: MirroredStudies | None = None
        self._away: str | None = None  # why, since the last try
        self._thread: threading.Thread | None = None

    def begin(self, studies: Sequence[Study]) -> None:
        """Begins to bring the storage to where the studies are: what it lacks is added."""
        if self._url is None:
            return
        self._studies = list(studies)
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="optuna mirror", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """A point was asked or told."""
        self._wake.set()

    @property
    def current(self) -> bool:
        """Whether, after `close`, the storage is where the studies are."""
        return self._thread is None or not (self._thread.is_alive() or self._away)

    def close(self) -> str:
        """Waits for the storage to be where the studies are, and says how to look at it, or that it is not; else ""."""
        if self._thread is None:
            return ""
        self._end.set()
        self._wake.set()
        self._thread.join(PATIENCE)
        if self.current:
            return f"Optuna: optuna-dashboard {shlex.quote(self._place)} shows the search"
        reason = "no answer in time" if self._thread.is_alive() else self._away
        remedy = f"keel-lab sync {self._sweep} makes up for it"
        return f"the Optuna storage at {self._place} is not up to date: {reason}; {remedy}"

    def _run(self) -> None:
        failures = 0
        while True:
            if failures:
                self._end.wait(RETRY[min(failures, len(RETRY)) - 1])  # the end is worth another try at once
            else:
                self._wake.wait()
            self._wake.clear()
            ending = self._end.is_set()  # asked before the update, which then has all that was told before the end
            failures = 0 if self._update() else failures + 1
            if ending:
                break
        self._let_go()

    def _update(self) -> bool:
        assert self._url is not None
        try:
            if self._open is None:
                self._open = MirroredStudies(open_storage(self._url), self._sweep, own=self._own)
            for study in self._studies:
                self._open.update(Shown(study, tuple(study.asked)))
        except Exception as error:  # noqa: BLE001 - databases raise anything; said once, and tried again
            self._let_go()  # what it knew of the storage may be wrong now
            reason = why(error, self._url)
            if self._away is None:
                self._say(f"the Optuna storage at {self._place} cannot be written: {reason}; the search goes on")
            self._away = reason
            return False
        if self._away is not None:
            self._say(f"the Optuna storage at {self._place} is up to date again")
        self._away = None
        return True

    def _let_go(self) -> None:
        if self._open is not None:
            close_storage(self._open.storage)
        self._open = None
