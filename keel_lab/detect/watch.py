"""The policy around the detector: when a run may stop, and whether a stored curve still answers (DESIGN 3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import State, Verdict
from keel_lab.learning_rate import lr_at
from keel_lab.settings import AnySchedule, ForkSchedule, RampSchedule


class Watch:
    """Watches one run under its schedule.

    A run goes to `schedule.steps` and stops at once when divergence is confirmed. A ramp still suspect at its last
    step goes on, its LR held at the peak, until the level is regained or the divergence confirmed: at most
    `confirm_samples` steps. A grid schedule is not extended: still suspect at its end is unconfirmed. A fork that
    lowers its trunk's LR goes to its end, whatever the detector says: it is there to show whether a level comes back.

    Args:
        schedule: of the run.
        thresholds: see there.
        unigram_entropy: H1 in nats, if known.
        learn_by: a run that has not learned by this step is over: stagnation (three times the step of its reference).
    """

    def __init__(
        self,
        schedule: AnySchedule,
        thresholds: Thresholds,
        unigram_entropy: float | None = None,
        learn_by: int | None = None,
    ) -> None:
        self._detector = StreamingDetector(thresholds, unigram_entropy)
        self._last = schedule.steps
        self._holds = isinstance(schedule, RampSchedule)
        self._to_the_end = isinstance(schedule, ForkSchedule) and lowers(schedule)
        self._learn_by = math.inf if learn_by is None else learn_by
        self._gave_up = False
        self._finished = False

    @property
    def state(self) -> State:
        """The detector's word now."""
        return self._detector.state

    @property
    def finished(self) -> bool:
        """True once the run needs no more steps."""
        return self._finished

    def update(self, step: Step) -> bool:
        """Takes in a step and says whether to go on. Steps after the finish change nothing.

        Raises:
            ValueError: if the step index does not rise.
        """
        if self._finished:
            return False
        state = self._detector.update(step)
        if state is State.DIVERGED and not self._to_the_end:
            self._finished = True
        elif step.step >= self._learn_by and self._detector.learned is False:
            self._finished = self._gave_up = True
        elif step.step >= self._last:
            self._finished = not (self._holds and state is State.SUSPECT)
        return not self._finished

    def verdict(self) -> Verdict:
        """The verdict as if the run ended here."""
        verdict = self._detector.verdict()
        if not self._gave_up:
            return verdict
        return replace(verdict, evidence={**verdict.evidence, "learn_by": int(self._learn_by)})


def lowers(fork: ForkSchedule) -> bool:
    """Whether a fork holds a lower LR than its trunk had when it left it."""
    return fork.lr < lr_at(fork.trunk, fork.at)


@dataclass(frozen=True)
class Judged:
    """A stored curve's verdict; `finished` says whether a run with this curve would need no more steps."""

    verdict: Verdict
    finished: bool


def judge(
    curve: Iterable[Step],
    schedule: AnySchedule,
    thresholds: Thresholds,
    unigram_entropy: float | None,
    learn_by: int | None = None,
) -> Judged:
    """Replays a stored curve, as far as a run under these thresholds would have gone; steps beyond are not looked at.

    Raises:
        ValueError: if a step index does not rise.
    """
    watch = Watch(schedule, thresholds, unigram_entropy, learn_by)
    for step in curve:
        if not watch.update(step):
            break
    return Judged(watch.verdict(), watch.finished)
