"""Where the running trials of a sweep stand, in storage: how `status` in another terminal sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.schedule.executor import Progress
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps

FILE = "live.json"
EVERY = 2.0  # seconds; a person looks at it, and on an object store each write is a request


class LiveSnapshot:
    """Written by the driver, at most every `EVERY` seconds; stale once nobody holds the sweep's lease."""

    def __init__(self, root: Root, name: str) -> None:
        self._sweeps, self._name = Sweeps(root), name
        self._running: dict[str, dict[str, Any]] = {}
        self._beside: dict[str, dict[str, Any]] = {}
        self._due = 0.0

    def judged(self, planned: PlannedTrial, verdict: Verdict) -> None:
        """Beside its siblings a trial has another verdict than by itself; stored with the others when the run ends."""
        self._beside[planned.trial.id] = verdict.to_json()

    def news(self, news: Sequence[Progress], flight: Mapping[str, Any]) -> None:
        """Takes the news of running trials; `flight` are those in flight now."""
        for item in news:
            self._running[item.trial_id] = {"step": item.step, "loss": item.loss, "state": item.state}
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        self._running = {trial_id: facts for trial_id, facts in self._running.items() if trial_id in flight}
        content = {"written_at": time.time(), "running": self._running, "beside": self._beside}
        self._sweeps.put_file(self._name, FILE, json.dumps(content, allow_nan=True).encode())


def read_snapshot(root: Root, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, Verdict]]:
    """As last written by the driver, by id: step, loss and detector state of the trials that run now, new verdicts.

    Returns:
        The running trials; and what was found in this run beside siblings, where it says more than the trial by itself.
    """
    try:
        content = json.loads(root.read(f"sweeps/{name}/{FILE}"))
    except FileNotFoundError:
        return {}, {}
    beside = content.get("beside", {})
    return dict(content["running"]), {trial_id: Verdict.from_json(verdict) for trial_id, verdict in beside.items()}


def running_trials(root: Root, name: str) -> dict[str, dict[str, Any]]:
    """The running trials alone."""
    return read_snapshot(root, name)[0]
