"""What comes back of a trial: small, JSON-ready; the curve stays in storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from keel_lab.detect.verdict import Verdict
from keel_lab.errors import NewerSchemaError

SCHEMA = 1


class Outcome(StrEnum):
    """What became of a trial. Diverged is a result; only failed is retried; stopped is resumed."""

    COMPLETED = "completed"
    DIVERGED = "diverged"
    FAILED = "failed"
    STOPPED = "stopped"


class FailureKind(StrEnum):
    """Why an attempt failed."""

    CRASH = "crash"
    OOM = "oom"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Failure:
    """One failed attempt.

    Attributes:
        message: what happened, for a person.
        node: host it ran on; "" if unknown.
        at: when it was known, Unix seconds; None before it was stored.
        final: whether trying again cannot help: the trainer refused what it was asked.
    """

    kind: FailureKind
    message: str
    node: str = ""
    at: float | None = None
    final: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict; `from_json` inverts it."""
        return {"kind": str(self.kind), "message": self.message, "node": self.node, "at": self.at, "final": self.final}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        """Inverse of `to_json`.

        Raises:
            ValueError: if a field is missing or not what it should be.
        """
        try:
            return cls(FailureKind(data["kind"]), data["message"], data["node"], data["at"], data.get("final", False))
        except KeyError as error:
            raise ValueError(f"not a failure: no {error}") from error


@dataclass(frozen=True)
class TrialResult:
    """What a finished or stopped run hands back; stored as `result.json` unless it was stopped.

    Attributes:
        steps: steps the curve holds.
        verdict: of the streaming detector under `thresholds`.
        thresholds: the thresholds the run was watched under, by name.
        metrics: final numbers by name, e.g. `val_loss`.
        data: facts of the data that evidence needs: `unigram_entropy` (H1, nats), `chance` (log V, nats).
        learn_by: the step by which it had to have learned, if there was one.
        execution: how it was run: versions, host, device, threads, `started_at`/`finished_at` (Unix seconds),
            `seconds_per_step` (median). Nothing in it enters a deterministic report.
    """

    trial_id: str
    outcome: Outcome
    steps: int
    verdict: Verdict
    thresholds: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, float] = field(default_factory=dict)
    execution: Mapping[str, Any] = field(default_factory=dict)
    learn_by: int | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` inverts it."""
        return {
            "schema": SCHEMA,
            "trial_id": self.trial_id,
            "outcome": str(self.outcome),
            "steps": self.steps,
            "verdict": self.verdict.to_json(),
            "thresholds": dict(self.thresholds),
            "metrics": dict(self.metrics),
            "data": dict(self.data),
            "execution": dict(self.execution),
            **({} if self.learn_by is None else {"learn_by": self.learn_by}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialResult:
        """Inverse of `to_json`; keys it does not know are left alone.

        Raises:
            NewerSchemaError: (a ValueError) if the data is of a newer schema.
            ValueError: if a field is missing or not what it should be.
        """
        schema = data.get("schema")
        if not isinstance(schema, int) or isinstance(schema, bool):
            raise ValueError(f"not a trial result: schema {schema!r}")
        if schema > SCHEMA:
            raise NewerSchemaError("trial result", schema, SCHEMA)
        try:
            trial_id, steps = data["trial_id"], data["steps"]
            maps = {name: data[name] for name in ("thresholds", "metrics", "data", "execution")}
            outcome, verdict = Outcome(data["outcome"]), Verdict.from_json(data["verdict"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a trial result: {error}") from error
        wrong = [name for name, value in maps.items() if not isinstance(value, Mapping)]
        if not isinstance(trial_id, str) or not isinstance(steps, int) or wrong:
            raise ValueError(f"not a trial result: {', '.join(['trial_id or steps', *wrong])} of another type")
        return cls(trial_id, outcome, steps, verdict, **maps, learn_by=data.get("learn_by"))


def with_shared_facts(result: TrialResult) -> TrialResult:
    """The same result, sharing with others what is equal in all of a sweep: most of what thousands of them take."""
    versions = result.execution.get("versions")
    execution = (
        result.execution if versions is None else {**result.execution, "versions": _shared(repr(versions), versions)}
    )
    return replace(result, thresholds=_shared(repr(result.thresholds), result.thresholds), execution=execution)


_facts: dict[str, Any] = {}


def _shared(text: str, facts: Any) -> Any:
    """The first of equal facts."""
    return _facts.setdefault(text, facts)
