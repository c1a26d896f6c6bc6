"""The moments of a probe, and its measurements as JSON."""

import json
import math

import pytest

from keel_lab import gradient_flow as names
from keel_lab.errors import NewerSchemaError, UsageError
from keel_lab.gradient_flow import MEASURES, Flow, Moment, moments
from keel_lab.store import flows
from keel_lab.store.root import Root

VALUES = {name: [0.25, math.nan, 3.0] for name in MEASURES}
FLOW = Flow(
    "ab", (True, False, None), ("embedding", "head"), (Moment(0, 5.5, VALUES), Moment(3, 4.0, VALUES)), {"t": 1}
)


@pytest.mark.parametrize(
    ("text", "steps", "expected"),
    [
        ("init,1%,10%,50%,100%", 300, (0, 3, 30, 150, 300)),
        ("100%, 7, init, 7", 50, (0, 7, 50)),
        ("0.1%", 10, (1,)),
        ("init", 2, (0,)),
    ],
)
def test_moments(text: str, steps: int, expected: tuple[int, ...]) -> None:
    assert moments(text, steps) == expected


@pytest.mark.parametrize(
    "text", ["", "begin", "0", "-1", "51", "101%", "0%", "1.5", "nan%", "inf%", "10 %%", "init,,1"]
)
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError, match=r"--at: found .*; give init, a share such as 10%, or a step from 1 to 50"):
        moments(text, 50)


def test_a_flow_survives_storage_with_its_gaps() -> None:
    again = Flow.from_json(FLOW.to_json())
    assert again.to_json() == FLOW.to_json()
    assert again.normed == FLOW.normed
    assert math.isnan(again.moments[1].values[names.COSINE][1])
    assert again.at([3]).steps == (3,)


def test_a_damaged_flow_is_made_again_and_a_newer_one_refused(tmp_path, caplog) -> None:
    root = Root.open(tmp_path)
    assert flows.load(root, "ab") is None
    assert flows.save(root, FLOW).to_json() == FLOW.to_json()
    found = flows.load(root, "ab")
    assert found is not None
    assert found.steps == (0, 3)
    root.write("probes/ab.json", FLOW.to_json()[:-9])
    assert flows.load(root, "ab") is None
    assert "is damaged" in caplog.text
    root.write("probes/ab.json", json.dumps({"schema": names.SCHEMA + 1}).encode())
    with pytest.raises(NewerSchemaError):
        flows.load(root, "ab")
