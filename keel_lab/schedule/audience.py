"""Whoever watches a run: terminal, tracking server, `status`. If they fail, that is said, and costs no result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from keel_lab.curve import Curve
from keel_lab.detect.verdict import Verdict
from keel_lab.errors import KeelLabError
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.live_snapshot import LiveSnapshot
from keel_lab.schedule.progress import Display
from keel_lab.track.tracker import Tracker

logger = logging.getLogger(__name__)


class Audience:
    """Tells all of them; nothing here raises.

    Attributes:
        warnings: by who failed, one sentence of the first time.
    """

    def __init__(
        self, display: Display, tracker: Tracker, snapshot: LiveSnapshot, curve: Callable[[str], Curve]
    ) -> None:
        self._display, self._tracker, self._snapshot, self._curve = display, tracker, snapshot, curve
        self._started: set[str] = set()
        self.warnings: dict[str, str] = {}

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """The sweep begins; these results were there before."""
        self._guard("display", lambda: self._display.begin(trials, reused))

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self._guard("display", lambda: self._display.joined(planned))

    def news(self, news: Sequence[Progress], flight: Mapping[str, PlannedTrial]) -> None:
        """News of running trials, which may be none; called several times a second."""
        for item in news:
            self._begun(flight[item.trial_id])
            if said := item.info.get("note"):
                self.note(f"{flight[item.trial_id].name}: {said}")
        if news:
            self._guard("tracking", lambda: self._tracker.live(news))
        self._guard("display", lambda: self._display.live(news))
        self._guard("status", lambda: self._snapshot.news(news, flight))

    def reused(self, planned: PlannedTrial, result: TrialResult, beside: Verdict | None) -> None:
        """A trial's result was there before, and so was what it says `beside` its siblings."""
        self._guard("tracking", lambda: self._record(planned, result, beside))

    def finished(self, planned: PlannedTrial, result: TrialResult) -> None:
        """A trial has its result."""
        self._begun(planned)
        self._guard("tracking", lambda: self._record(planned, result))
        self._guard("display", lambda: self._display.finished(planned, result))

    def judged(self, planned: PlannedTrial, result: TrialResult, beside: Verdict) -> None:
        """Beside its siblings a trial has another verdict than by itself."""
        self._guard("tracking", lambda: self._record(planned, result, beside))
        self._guard("display", lambda: self._display.judged(planned, beside))
        self._guard("status", lambda: self._snapshot.judged(planned, beside))

    def retried(self, planned: PlannedTrial, failure: Failure, attempt: int) -> None:
        """See `Display.retried`."""
        self._guard("display", lambda: self._display.retried(planned, failure, attempt))

    def failed(self, planned: PlannedTrial, failure: Failure) -> None:
        """See `Display.failed` and `Tracker.failed`."""
        self._guard("tracking", lambda: self._tracker.failed(planned, failure))
        self._guard("display", lambda: self._display.failed(planned, failure))

    def cut(self, planned: PlannedTrial) -> None:
        """See `Display.cut`."""
        self._guard("display", lambda: self._display.cut(planned))

    def note(self, text: str) -> None:
        """See `Display.note`."""
        self._guard("display", lambda: self._display.note(text))

    def _begun(self, planned: PlannedTrial) -> None:
        if planned.trial.id not in self._started:
            self._started.add(planned.trial.id)
            self._guard("tracking", lambda: self._tracker.started(planned))

    def _record(self, planned: PlannedTrial, result: TrialResult, beside: Verdict | None = None) -> None:
        curve = partial(self._curve, planned.trial.id)
        self._tracker.record(planned, result, result.verdict, curve, beside)

    def _guard(self, who: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            ours = not isinstance(error, KeelLabError)  # else it is the storage, say, whose message is enough
            logger.warning("%s failed: %s", who, error, exc_info=ours and who not in self.warnings)
            self.warnings.setdefault(who, f"{who} failed: {type(error).__name__}: {error}")
