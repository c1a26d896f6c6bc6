"""What is delivered of a finished trial, and the points of a running one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from keel_lab.detect.verdict import Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import TrialResult
from keel_lab.track.tracker import CurveSource

Point = tuple[int, int, Mapping[str, float]]  # step, Unix milliseconds, metrics
Clock = MutableMapping[int, int]  # when each step was sent


@dataclass(frozen=True)
class Record:
    """What `Tracker.record` was told of one trial."""

    planned: PlannedTrial
    result: TrialResult
    verdict: Verdict
    curve: CurveSource
    beside: Verdict | None = None

    def digest(self) -> str:
        """Changes when the result or the judgement does; the curve belongs to the result."""
        beside = [] if self.beside is None else [self.beside.to_json()]
        told = json.dumps([self.result.to_json(), self.verdict.to_json(), *beside], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()[:12]
