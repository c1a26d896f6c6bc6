"""How far a running sweep is, in the numbers and words that every display shows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.forecast import Forecast
from keel_lab.schedule.progress import describe, describe_beside
from keel_lab.trial import Trial

LAST = 3  # verdicts that are remembered

Prior = Callable[[Iterable[Trial]], Mapping[str, float]]


def unknown(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Nothing is known of what steps cost."""
    return {}


class Standing:
    """Counts what the runner tells.

    Attributes:
        trials: by id.
        running: the last news of each running trial, by id, in the order they began.
        ended: ids of those that need no more, results of earlier runs included.
        failed, retries: how many trials were given up, and attempts were followed by another.
        verdicts: the last ones, newest first, as `NAME: verdict`.

    Args:
        prior: seconds a step as measured in earlier runs, by id; asked for those that are left.
    """

    def __init__(self, prior: Prior = unknown) -> None:
        self._prior = prior
        self.trials: dict[str, PlannedTrial] = {}
        self.running: dict[str, Progress] = {}
        self.ended: set[str] = set()
        self.failed = self.retries = 0
        self.verdicts: deque[str] = deque(maxlen=LAST)
        self._forecast = Forecast()
        self._began = time.monotonic()
        self._finished = 0

    def begin(self, trials: Sequence[PlannedTrial], reused: Mapping[str, TrialResult]) -> None:
        """See `Display.begin`."""
        self.trials = {planned.trial.id: planned for planned in trials}
        self.ended = set(reused)
        left = [planned.trial for planned in trials if planned.trial.id not in reused]
        self._forecast = Forecast(trials, reused.keys(), self._prior(left) if left else {})
        self._began = time.monotonic()

    def joined(self, planned: PlannedTrial) -> None:
        """See `Display.joined`."""
        self.trials[planned.trial.id] = planned
        self._forecast.joined(planned)

    def live(self, news: Sequence[Progress]) -> list[PlannedTrial]:
        """See `Display.live`; returns the trials that began."""
        known = [item for item in news if item.trial_id in self.trials and item.trial_id not in self.ended]
        self._forecast.news(known)
        new = [self.trials[item.trial_id] for item in known if item.trial_id not in self.running]
        self.running |= {item.trial_id: item for item in known}
        return list({planned.trial.id: planned for planned in new}.values())

    def finished(self, planned: PlannedTrial, result: TrialResult) -> str:
        """See `Display.finished`; returns the verdict in words."""
        words = describe(result.verdict, planned.trial)
        self._end(planned, result)
        self._finished += 1
        self.verdicts.appendleft(f"{planned.name}: {words}")
        return words

    def judged(self, planned: PlannedTrial, beside: Verdict) -> str:
        """See `Display.judged`; returns the verdict in words."""
        words = describe_beside(beside, planned.trial)
        self.verdicts.appendleft(f"{planned.name}: {words}")
        return words

    def retried(self, planned: PlannedTrial) -> None:
        """See `Display.retried`."""
        self.running.pop(planned.trial.id, None)
        self._forecast.retried(planned.trial.id)
        self.retries += 1

    def gave_up(self, planned: PlannedTrial) -> None:
        """See `Display.failed`."""
        self._end(planned)
        self.failed += 1

    def cut(self, planned: PlannedTrial) -> str:
        """See `Display.cut`; returns what became of it in words."""
        self._end(planned)
        words = "cut by the pruner"
        self.verdicts.appendleft(f"{planned.name}: {words}")
        return words

    def headline(self, *, eta: bool = True) -> str:
        """`117/180 trials, 2 running, 3 failed, 1 retry, 41 trials/h, ETA 12 min (9 min to 16 min)`."""
        hosts = {host for item in self.running.values() if (host := item.info.get("host"))}
        where = f" on {len(hosts)} hosts" if len(hosts) > 1 else ""
        words = [f"{len(self.ended)}/{len(self.trials)} trials", f"{len(self.running)} running{where}"]
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{self.retries} retr{'y' if self.retries == 1 else 'ies'}"] if self.retries else []
        words += [self._throughput()] if self._finished else []
        return ", ".join([*words, f"ETA {self._forecast.eta()}"] if eta else words)

    def _throughput(self) -> str:
        """Trials a second, minute or hour of this run, whichever is above one."""
        rate = self._finished / max(1e-9, time.monotonic() - self._began)
        for seconds, unit in ((1, "s"), (60, "min")):
            if rate * seconds >= 1:
                return f"{rate * seconds:.3g} trials/{unit}"
        return f"{rate * 3600:.2g} trials/h"

    def _end(self, planned: PlannedTrial, result: TrialResult | None = None) -> None:
        self.running.pop(planned.trial.id, None)
        self.ended.add(planned.trial.id)
        self._forecast.ended(planned.trial.id, result)
