"""What must hold of any curve: causal, the same however it is fed, unmoved by a shift, and JSON-ready evidence."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keel_lab.curve import Step
from keel_lab.detect.max_lr import MaxLRKind, max_lr
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import State, Status, Verdict
from keel_lab.detect.watch import judge
from keel_lab.settings import GridSchedule
from tests.simulated_curves import RISES, TRENDS, curve, gaussian, losses, rising

LOSS = st.one_of(
    st.floats(0.0, 12.0),
    st.floats(2.9, 3.1),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e38, 0.0, 3.0]),
)
CURVES = st.lists(LOSS, max_size=250)


def jump(seed: object = 0) -> list[float]:
    return losses(rising(TRENDS["power law"], RISES["collapse"], 300), gaussian(0.1), 600, seed)


def fed(steps: list[Step], h1: float | None = None) -> StreamingDetector:
    detector = StreamingDetector(Thresholds(), h1)
    for step in steps:
        detector.update(step)
    return detector


@pytest.mark.parametrize("h1", [None, 3.6])
def test_a_state_is_that_of_a_fresh_detector_on_the_prefix(h1):
    values = jump()
    values[100] = math.nan
    steps = curve(values)
    detector = StreamingDetector(Thresholds(), h1)
    for n, step in enumerate(steps, start=1):
        state = detector.update(step)
        if n % 13 == 0 or n < 20:
            fresh = fed(steps[:n], h1)
            assert (state, detector.verdict()) == (fresh.state, fresh.verdict())
            assert state is detector.state


@settings(max_examples=80, deadline=None)
@given(CURVES, st.sampled_from([None, 3.0]))
def test_any_curve_gets_a_consistent_verdict_with_finite_json(values, h1):
    steps = curve(values)
    detector = fed(steps, h1)
    found = detector.verdict()
    judged = judge(steps, GridSchedule(lr=1e-3, steps=10**6), Thresholds(), h1)
    assert judged.verdict == found
    assert judged.finished is (detector.state is State.DIVERGED)
    assert (found.mode is not None) is (found.status is Status.DIVERGED)
    assert found.censored is (found.status in (Status.HEALTHY, Status.TRANSIENT))
    if found.onset_step is not None and found.last_good_step is not None:
        assert found.last_good_step == found.onset_step - 1
    text = json.dumps(found.to_json(), allow_nan=False)
    assert Verdict.from_json(json.loads(text)).to_json() == found.to_json()
    assert (max_lr(found).lr is not None) is (max_lr(found).kind in (MaxLRKind.MEASURED, MaxLRKind.CENSORED))


@pytest.mark.parametrize("shift", [-2.0, 0.5, 100.0])
@pytest.mark.parametrize("h1", [None, 3.6])
def test_a_constant_added_to_loss_and_h1_changes_nothing_but_levels(shift, h1):
    for values in (jump(), losses(TRENDS["power law"], gaussian(0.1), 600, 1)):
        plain = fed(curve(values), h1).verdict()
        shifted = fed(curve([v + shift for v in values]), None if h1 is None else h1 + shift).verdict()
        for field in ("status", "mode", "onset_step", "last_good_step", "learned"):
            assert getattr(plain, field) == getattr(shifted, field)
        assert shifted.evidence["alarm_step"] == plain.evidence["alarm_step"]
        assert shifted.evidence["sigma"] == pytest.approx(plain.evidence["sigma"])
        assert shifted.evidence["best_level"] == pytest.approx(plain.evidence["best_level"] + shift)


def test_steps_may_skip_but_not_go_back():
    steps = curve([3.0] * 10, stride=10)
    detector = fed(steps)
    assert detector.verdict().last_good_step == 91
    for back in (91, 1):
        with pytest.raises(ValueError, match=f"step {back} after step 91"):
            detector.update(Step(back, 3.0, 1e-3))
    assert detector.update(Step(92, 3.0, 1e-3)) is State.HEALTHY


def test_diverged_is_final():
    steps = curve([*jump(), *losses(lambda t: 1.0, gaussian(0.1), 300, 1)])
    detector = StreamingDetector(Thresholds())
    states = [detector.update(step) for step in steps]
    first = states.index(State.DIVERGED)
    assert set(states[first:]) == {State.DIVERGED}
    assert detector.verdict() == fed(steps[: first + 1]).verdict()


def test_the_states_come_in_order():
    detector = StreamingDetector(Thresholds())
    states = [detector.update(step) for step in curve(jump())]
    assert list(dict.fromkeys(states)) == [State.WARMING, State.HEALTHY, State.SUSPECT, State.DIVERGED]
    assert states.count(State.WARMING) == 7


def test_memory_is_constant():
    def size(steps: int) -> int:
        seen: dict[int, int] = {}

        def walk(thing: object) -> None:
            if id(thing) in seen:
                return
            seen[id(thing)] = sys.getsizeof(thing)
            if isinstance(thing, list | tuple):
                for part in thing:
                    walk(part)
            for slot in getattr(type(thing), "__slots__", ()):
                walk(getattr(thing, slot))

        values = [
            math.nan if i % 50 == 25 else v for i, v in enumerate(losses(TRENDS["flat"], gaussian(0.1), steps, 0))
        ]
        detector = fed(curve(values))
        assert detector.verdict().evidence["transients"] > 20
        walk(detector)
        return sum(seen.values())

    assert size(8000) <= size(2000) * 1.05


def test_the_detectors_import_nothing_heavy():
    code = (
        "import sys; import keel_lab.detect.watch, keel_lab.detect.max_lr; "
        "print([m for m in ('numpy', 'torch', 'pandas', 'pyarrow', 'scipy') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
