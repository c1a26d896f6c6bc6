"""The policy around the detector: when a run may stop, and whether a stored curve still answers (DESIGN 3 and 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import State, Verdict
from keel_lab.settings import GridSchedule, RampSchedule


class Watch:
    """Watches one run under its schedule.

    A run goes to `schedule.steps` and stops at once when divergence is confirmed. A ramp still suspect at its last
    step goes on, its LR held at the peak, until the level is regained or the divergence confirmed: at most
    `confirm_samples` steps. A grid schedule is not extended: still suspect at its end is unconfirmed.
    """

    def __init__(
        self, schedule: RampSchedule | GridSchedule, thresholds: Thresholds, unigram_entropy: float | None = None
    ) -> None:
        self._detector = StreamingDetector(thresholds, unigram_entropy)
        self._last = schedule.steps
        self._holds = isinstance(schedule, RampSchedule)
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
        if state is State.DIVERGED:
            self._finished = True
        elif step.step >= self._last:
            self._finished = not (self._holds and state is State.SUSPECT)
        return not self._finished

    def verdict(self) -> Verdict:
        """The verdict as if the run ended here."""
        return self._detector.verdict()


@dataclass(frozen=True)
class Judged:
    """A stored curve's verdict; `finished` says whether a run with this curve would need no more steps."""

    verdict: Verdict
    finished: bool


def judge(
    curve: Iterable[Step],
    schedule: RampSchedule | GridSchedule,
    thresholds: Thresholds,
    unigram_entropy: float | None,
) -> Judged:
    """Replays a stored curve, as far as a run under these thresholds would have gone; steps beyond are not looked at.

    Raises:
        ValueError: if a step index does not rise.
    """
    watch = Watch(schedule, thresholds, unigram_entropy)
    for step in curve:
        if not watch.update(step):
            break
    return Judged(watch.verdict(), watch.finished)
