"""A running trial's line to the driver: news out, and on the reply whether it has been asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from keel_lab.schedule.executor import Progress


class Mailbox(Protocol):
    """What a session needs of the driver. Nothing here raises because the driver is away or slow."""

    @property
    def stop_requested(self) -> bool:
        """Whether a reply so far said to stop; costs nothing to ask at every step."""

    def announce(self, news: Progress) -> Callable[[], bool]:
        """Posts a trial's first news; what it returns waits briefly for the reply: whether not even to begin."""

    def post(self, news: Progress) -> bool:
        """Sends news without waiting; False if the last ones are still unanswered: keep these for the next batch."""


class LocalMailbox:
    """Driver and trial are one process: a list and a flag."""

    def __init__(self) -> None:
        self.news: list[Progress] = []
        self.stop_requested = False
        self.hear: Callable[[Progress], Iterable[str]] = lambda news: ()

    def announce(self, news: Progress) -> Callable[[], bool]:
        """See `Mailbox.announce`."""
        self._take(news)
        return lambda: self.stop_requested

    def post(self, news: Progress) -> bool:
        """See `Mailbox.post`."""
        self._take(news)
        return True

    def drain(self) -> list[Progress]:
        """All news since the last call."""
        news, self.news = self.news, []
        return news

    def _take(self, news: Progress) -> None:
        self.news.append(news)
        if news.trial_id in self.hear(news):
            self.stop_requested = True
