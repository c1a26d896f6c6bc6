"""Labelled curves of public training logs: no false alarm, no divergence missed, last good steps as labelled."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict

FOLDER = Path(__file__).parents[1] / "data" / "curves"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


INDEX = {row["file"]: row for row in read(FOLDER / "INDEX.csv")}
FRAGMENTS = [name for name in INDEX if "_frag" in name]
QUIET = [
    name for name, row in INDEX.items() if row["label"] in ("healthy", "transient-spike") and name not in FRAGMENTS
]
LOST = [name for name, row in INDEX.items() if row["label"] == "irrecoverable" and name not in FRAGMENTS]
DEGRADED = [name for name, row in INDEX.items() if row["label"] == "degradation"]


def runs(name: str) -> list[list[Step]]:
    """The runs of a log, split where the step goes back."""
    found: list[list[Step]] = [[]]
    for row in read(FOLDER / name):
        step = Step(int(row["step"]), float(row["loss"]), float(row.get("lr") or math.nan))
        if found[-1] and step.step <= found[-1][-1].step:
            found.append([])
        found[-1].append(step)
    return found


def judged(steps: list[Step]) -> Verdict:
    detector = StreamingDetector(Thresholds())
    for step in steps:
        detector.update(step)
    return detector.verdict()


def test_every_curve_is_in_one_of_the_lists():
    assert len(INDEX) == 28 == len(QUIET) + len(LOST) + len(DEGRADED) + len(FRAGMENTS)
    assert len(LOST) == 3


@pytest.mark.parametrize("name", QUIET)
def test_no_false_alarm(name):
    for steps in runs(name):
        found = judged(steps)
        if len(steps) < 8:
            assert found.status is Status.UNDECIDED
        else:
            assert found.status in (Status.HEALTHY, Status.TRANSIENT), found
            assert found.censored
            assert found.last_good_step == steps[-1].step


@pytest.mark.parametrize("name", LOST)
def test_no_divergence_missed_and_the_last_good_step_is_the_label(name):
    (steps,) = runs(name)
    found = judged(steps)
    assert (found.status, found.mode) == (Status.DIVERGED, Mode.IRRECOVERABLE)
    numbers = [step.step for step in steps]
    low = numbers.index(int(INDEX[name]["last_good_lo"])) - 2
    high = numbers.index(int(INDEX[name]["last_good_hi"])) + 2
    assert numbers[low] <= found.last_good_step <= numbers[min(high, len(numbers) - 1)]
    assert found.onset_step == numbers[numbers.index(found.last_good_step) + 1]


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_are_undecided(name):
    assert [judged(steps).status for steps in runs(name)] == [Status.UNDECIDED]


@pytest.mark.parametrize("name", DEGRADED)
def test_degradation_alone_is_no_loss_of_a_level(name):
    """It shows beside siblings only: the streaming detector must not call it by another name."""
    (steps,) = runs(name)
    assert judged(steps).status in (Status.HEALTHY, Status.TRANSIENT)


@pytest.mark.parametrize("name", [*QUIET, *LOST])
def test_a_curve_turned_non_finite_at_its_end_is_dated_there(name):
    steps = runs(name)[0]
    if judged(steps).status is Status.DIVERGED or len(steps) < 8:
        steps = steps[:10]
    broken = [*steps, *(steps[-1]._replace(step=steps[-1].step + i, loss=math.nan) for i in (1, 2, 3))]
    found = judged(broken)
    assert (found.mode, found.last_good_step) == (Mode.NON_FINITE, steps[-1].step)
