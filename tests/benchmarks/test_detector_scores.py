"""The arithmetic of benchmarks/detectors.py on labels and answers made up for it."""

from __future__ import annotations

import pytest

from benchmarks.corpus import Case, Label
from benchmarks.detector_scores import Answer, Answered, faults, lr_ratio, onset_off, score
from benchmarks.detector_tables import agreement, aligned
from keel_lab.curve import Step
from keel_lab.detect.verdict import Mode, Status

H1 = 3.2
EVERY = frozenset(Mode)
RAMP = [Step(t, 3.0, 1e-4 * t) for t in range(1, 101)]
HELD = [Step(t, 3.0, 1e-4) for t in range(1, 101)]


def answered(verdict, answer, mode=None, good=None, steps=RAMP):
    return Answered(Case(Label("sweep/run", "tune", Status(verdict), mode, good), steps, H1), answer)


def diverged(step, mode=Mode.COLLAPSE, steps=RAMP):
    lr = None if step is None else steps[step - 1].lr
    return Answer(Status.DIVERGED, mode, step, lr)


HEALTHY = Answer(Status.HEALTHY, None, 100, 1e-2)
UNCONFIRMED = Answer(Status.UNCONFIRMED, None, 90, 9e-3)


def test_precision_and_recall_leave_unconfirmed_labels_out():
    scores = score(
        [
            answered("diverged", diverged(50), Mode.COLLAPSE, (50, 50)),
            answered("diverged", HEALTHY, Mode.COLLAPSE, (50, 50)),
            answered("diverged", UNCONFIRMED, Mode.COLLAPSE, (50, 50)),
            answered("healthy", diverged(9)),
            answered("healthy", HEALTHY),
            answered("transient", HEALTHY),
            answered("unconfirmed", diverged(50), None, (50, 60)),
            answered("unconfirmed", HEALTHY, None, (50, 60)),
        ],
        EVERY,
    )
    assert scores.precision == (1, 2)
    assert scores.recall == (1, 3)
    assert (scores.on_healthy, scores.on_transient, scores.on_unconfirmed) == ((1, 2), (0, 1), (1, 2))
    assert scores.onset.n == 1


def test_modes_are_found_recalled_and_precise():
    scores = score(
        [
            answered("diverged", diverged(50, Mode.COLLAPSE), Mode.COLLAPSE, (50, 50)),
            answered("diverged", diverged(50, Mode.IRRECOVERABLE), Mode.COLLAPSE, (50, 50)),
            answered("diverged", diverged(50, Mode.COLLAPSE), Mode.IRRECOVERABLE, (50, 50)),
            answered("healthy", diverged(50, Mode.COLLAPSE)),
            answered("unconfirmed", diverged(50, Mode.COLLAPSE), None, (50, 60)),
        ],
        EVERY - {Mode.STAGNATION},
    )
    collapse = scores.modes[Mode.COLLAPSE]
    assert (collapse.found, collapse.recall, collapse.precision) == ((2, 2), (1, 2), (1, 3))
    assert scores.modes[Mode.IRRECOVERABLE].precision == (0, 1)
    assert scores.modes[Mode.NON_FINITE].precision.value is None
    assert scores.modes[Mode.STAGNATION].recall is None


@pytest.mark.parametrize(("step", "off"), [(40, -5), (45, 0), (47, 0), (50, 0), (62, 12), (None, None)])
def test_onset_is_measured_from_the_interval(step, off):
    assert onset_off(answered("diverged", diverged(step), Mode.COLLAPSE, (45, 50))) == off


def test_onset_error_has_median_nearest_rank_and_bias():
    ones = [answered("diverged", diverged(step), Mode.COLLAPSE, (50, 50)) for step in (48, 50, 51, 60)]
    onset = score(ones, EVERY).onset
    assert (onset.n, onset.median, onset.p90, onset.bias) == (4, 1.5, 10, 2.25)
    ten = [answered("diverged", diverged(50 + off), Mode.COLLAPSE, (50, 50)) for off in range(10)]
    assert score(ten, EVERY).onset.p90 == 8
    assert score([answered("healthy", HEALTHY)], EVERY).onset is None


def test_max_lr_is_compared_at_the_middle_of_the_interval_and_on_ramps():
    late = answered("diverged", diverged(60), Mode.COLLAPSE, (30, 50))
    early = answered("diverged", diverged(10), Mode.COLLAPSE, (40, 40))
    held = answered("diverged", diverged(60, steps=HELD), Mode.COLLAPSE, (30, 50), HELD)
    assert lr_ratio(late) == pytest.approx(1.5)
    assert lr_ratio(held) is None
    assert lr_ratio(answered("diverged", diverged(10), Mode.COLLAPSE, (0, 0))) is None  # no step was good
    scores = score([late, early, held], EVERY)
    assert (scores.max_lr.n, scores.max_lr.median, scores.max_lr.worst) == pytest.approx((2, 0.875, 0.25))


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (answered("healthy", diverged(50)), ["false alarm"]),
        (answered("transient", HEALTHY), ["is transient"]),
        (answered("healthy", HEALTHY), []),
        (answered("unconfirmed", diverged(3), None, (50, 60)), []),
        (answered("diverged", UNCONFIRMED, Mode.COLLAPSE, (50, 60)), ["still open at its end"]),
        (answered("diverged", HEALTHY, Mode.COLLAPSE, (50, 60)), ["missed"]),
        (answered("diverged", diverged(48), Mode.COLLAPSE, (50, 60)), ["onset 2 steps early"]),
        (answered("diverged", diverged(63), Mode.IRRECOVERABLE, (50, 60)), ["is irrecoverable", "onset 3 steps late"]),
        (answered("diverged", diverged(None), Mode.COLLAPSE, (50, 60)), ["no last good step"]),
        (answered("diverged", diverged(None, Mode.STAGNATION), Mode.STAGNATION), []),
    ],
)
def test_faults_in_words(one, wrong):
    assert faults(one, EVERY, confirms=True) == wrong


def test_a_rule_is_not_blamed_for_words_it_does_not_have():
    assert faults(answered("transient", HEALTHY), {Mode.NON_FINITE}, confirms=False) == []
    alarm = answered("diverged", diverged(55, None), Mode.COLLAPSE, (50, 60))
    assert faults(alarm, {Mode.NON_FINITE}, confirms=False) == []


def test_agreement_of_the_two_labels():
    pairs = [("healthy", "healthy/"), ("diverged/collapse", "diverged/irrecoverable"), ("healthy/", "transient/")]
    labels = [Label("a", "tune", Status.HEALTHY, first=first, second=second) for first, second in pairs]
    assert agreement([*labels, Label("b", "tune", Status.HEALTHY)]) == {
        "labelled_twice": 3,
        "same_verdict": 2,
        "same_mode": 1,
    }


def test_headers_run_over_into_empty_cells():
    assert aligned([["", "both of them", ""], ["a", "b", "c"], ["d", "eeeee", "f"]], 1).splitlines() == [
        "   both of them",
        "a  b      c",
        "d  eeeee  f",
    ]
