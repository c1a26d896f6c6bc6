"""Results and failures as JSON."""

import json
import math

import pytest

from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.errors import NewerSchemaError, UsageError
from keel_lab.result import SCHEMA, Failure, FailureKind, Outcome, TrialResult

RESULT = TrialResult(
    trial_id="a" * 16,
    outcome=Outcome.DIVERGED,
    steps=3,
    verdict=Verdict(Status.DIVERGED, Mode.COLLAPSE, 2, 1, 1e-5, learned=True, evidence={"sigma": 0.02}),
    thresholds={"span_samples": 20},
    metrics={"val_loss": math.inf},
    data={"chance": 5.545},
    execution={"device": "cpu", "seconds_per_step": 0.01},
)


def test_round_trip_through_text():
    assert TrialResult.from_json(json.loads(json.dumps(RESULT.to_json()))) == RESULT


def test_keys_of_the_store_are_left_alone():
    assert TrialResult.from_json({**RESULT.to_json(), "files": {}}) == RESULT


def test_a_newer_schema_is_refused_as_usage():
    with pytest.raises(NewerSchemaError, match=rf"trial result has schema {SCHEMA + 1}.*upgrade") as caught:
        TrialResult.from_json({**RESULT.to_json(), "schema": SCHEMA + 1})
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("key", sorted(RESULT.to_json()))
def test_every_key_is_needed(key):
    data = {name: value for name, value in RESULT.to_json().items() if name != key}
    with pytest.raises(ValueError, match="not a trial result"):
        TrialResult.from_json(data)


@pytest.mark.parametrize(
    "change",
    [{"schema": "1"}, {"schema": True}, {"outcome": "fine"}, {"verdict": 3}, {"steps": "3"}, {"metrics": [1]}],
    ids=str,
)
def test_values_of_another_type_are_refused(change):
    with pytest.raises(ValueError, match=r"not a trial result|is not a valid Outcome"):
        TrialResult.from_json({**RESULT.to_json(), **change})


def test_failures_round_trip_with_their_time():
    failure = Failure(FailureKind.OOM, "killed", "node-3", 1.5)
    assert Failure.from_json(json.loads(json.dumps(failure.to_json()))) == failure


@pytest.mark.parametrize(
    "data", [{}, {"kind": "oom", "message": "m"}, {"kind": "?", "message": "", "node": "", "at": 0}]
)
def test_other_data_is_no_failure(data):
    with pytest.raises(ValueError, match=r"not a failure|not a valid FailureKind"):
        Failure.from_json(data)
