"""What a running trial tells the driver: about once a second, and in all at most some hundred points a metric."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from keel_lab.curve import Step
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.machine_load import sampler
from keel_lab.schedule.mailbox import Mailbox
from keel_lab.track.points import stride
from keel_lab.trial import Trial

BATCH_EVERY = 1.0  # seconds

Point = tuple[int, int, dict[str, float]]


class News:
    """Thins a run's steps by their number, so that a resumed run repeats the same points, and posts them in batches.

    Attributes:
        unigram_entropy: H1 in nats, once it is known.
        note: a sentence for the user, sent with the next batch.
    """

    def __init__(self, trial: Trial, mailbox: Mailbox, now: float, sample_every: float | None = None) -> None:
        self.unigram_entropy: float | None = None
        self.note = ""
        self._trial_id = trial.id
        self._mailbox = mailbox
        self._stride = stride(trial)
        self._points: list[Point] = []
        self._last: Step | None = None
        self._due = now
        self._load = sampler(sample_every, now)
        self._info: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid()}

    def step(self, step: Step, state: str, now: float) -> None:
        """Takes a step; sends what there is when a batch is due."""
        self._last = step
        if step.step % self._stride == 0:
            self._points.append((step.step, time.time_ns() // 1_000_000, self._metrics(step)))
        if now >= self._due:
            if self._load is not None and (values := self._load.sample(now)):
                self._points.append((step.step, time.time_ns() // 1_000_000, values))
            self._send(state)
            self._due = now

    def rungs(self, rungs: Sequence[tuple[int, float]]) -> None:
        """The losses, by step, at the marks reached so far; all of them go with each batch from here on."""
        self._info = {**self._info, "rungs": [list(one) for one in rungs]}
        self._due = -math.inf

    def say(self, text: str, state: str) -> None:
        """Tells the user something at once, and waits until it is taken: for moments in which nothing trains."""
        step, loss = (0, math.nan) if self._last is None else (self._last.step, self._last.loss)
        self._mailbox.announce(Progress(self._trial_id, step, loss, state, info={**self._info, "note": text}))()

    def close(self, state: str) -> None:
        """Sends what is left, even if the last news are still unanswered: there is no next batch."""
        if self._last is not None and not self._send(state):
            self._mailbox.announce(self._batch(state))

    def _send(self, state: str) -> bool:
        sent = self._mailbox.post(self._batch(state))
        if sent:
            self._points, self.note = [], ""
        return sent

    def _batch(self, state: str) -> Progress:
        assert self._last is not None
        info = self._info | ({"note": self.note} if self.note else {})
        return Progress(self._trial_id, self._last.step, self._last.loss, str(state), tuple(self._points), info)

    def _metrics(self, step: Step) -> dict[str, float]:
        values = {"loss": step.loss, "lr": step.lr, "grad_norm": step.grad_norm}
        if self.unigram_entropy is not None:
            values["paired_loss"] = step.loss - (step.unigram_loss - self.unigram_entropy)
        if step.lr > 0:
            values["log10_lr"] = math.log10(step.lr)
        return {name: value for name, value in values.items() if math.isfinite(value)}
