"""Degradation beside siblings: real and simulated families, healthy seed pairs, who counts as a sibling."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import pytest

from keel_lab.curve import Step
from keel_lab.detect.agreement import judge_curve
from keel_lab.detect.siblings import Sibling, compare, judge_beside
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.detect.whole import judge_whole

FOLDER = Path(__file__).parents[1] / "data" / "curves"
THRESHOLDS = Thresholds()


def rows(name):
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def steps_of(name):
    return [Step(int(row["step"]), float(row["loss"]), float(row["lr"])) for row in rows(f"{name}.csv")]


def beside(name, *siblings):
    return judge_curve(steps_of(name), siblings=[Sibling(one, steps_of(one)) for one in siblings])


@pytest.mark.parametrize(
    ("name", "siblings"),
    [
        ("xm_lr1e-2", ["xm_lr1e-4", "xm_lr1e-3"]),
        ("xm_lr1e-2", ["xm_lr1e-3"]),
        ("xm_lr3e-2", ["xm_lr1e-4", "xm_lr1e-3"]),
        ("xm_lr3e-2", ["xm_lr1e-4", "xm_lr1e-3", "xm_lr1e-2"]),
        ("vk_moe_adam_lr1e-2", ["vk_moe_adam_lr1e-3"]),
    ],
)
def test_labelled_degradations_are_found_where_they_began(name, siblings):
    (label,) = [row for row in rows("INDEX.csv") if row["file"] == f"{name}.csv"]
    found = beside(name, *siblings)
    assert (found.status, found.mode, found.detector) == (Status.DIVERGED, Mode.DEGRADATION, "siblings-1")
    numbers = [step.step for step in steps_of(name)]
    low = numbers[max(0, numbers.index(int(label["last_good_lo"])) - 2)]
    high = numbers[numbers.index(int(label["last_good_hi"])) + 2]
    assert low <= found.last_good_step <= high
    assert found.last_good_lr == {step.step: step.lr for step in steps_of(name)}[found.last_good_step]
    evidence = found.evidence
    assert evidence["rule"] == "above_siblings"
    assert evidence["alone"]["status"] in ("healthy", "transient")
    assert evidence["siblings"]["onset_interval"] == [found.last_good_step, found.onset_step]
    assert evidence["siblings"]["used"] == sorted(siblings)
    assert not found.censored


def test_only_lower_lrs_count():
    slow = beside("xm_lr1e-4", "xm_lr1e-3", "xm_lr1e-2")  # half a nat above both, and healthy
    assert (slow.status, slow.evidence["siblings"]["finding"]) == (Status.HEALTHY, "no_siblings")
    assert slow.evidence["siblings"]["left_out"] == dict.fromkeys(("xm_lr1e-3", "xm_lr1e-2"), "its LR is higher")
    best = beside("xm_lr1e-3", "xm_lr1e-4", "xm_lr1e-2", "xm_lr3e-2")
    assert (best.status, best.evidence["siblings"]["finding"]) == (Status.HEALTHY, "none")
    assert beside("xm_lr1e-3", "xm_lr1e-3").evidence["siblings"]["left_out"] == {"xm_lr1e-3": "its LR is the same"}


def test_a_gap_that_is_closed_by_the_end_is_no_degradation():
    found = beside("xm_lr1e-2", "xm_lr1e-4")  # 0.4 nats above it at step 850, 0.3 below it at the end
    assert (found.status, found.evidence["siblings"]["finding"]) == (Status.HEALTHY, "closed")


def test_a_curve_that_lost_its_level_keeps_its_own_mode():
    found = beside("xm_lr1e-1", "xm_lr1e-4", "xm_lr1e-3")
    assert (found.mode, found.evidence["siblings"]["finding"]) == (Mode.IRRECOVERABLE, "degraded")


def family(seed, count, lr=1.0, lift=lambda t: 0.0, stride=1, own=0.06, wander=0.01):
    """A run whose batches are those of every other one, with noise and slow wander of its own."""
    batch, mine = random.Random("batches"), random.Random(seed)
    difficulty = [batch.gauss(0.0, 0.2) for _ in range(count)]
    drift, found = 0.0, []
    for t in range(1, count + 1):
        drift = 0.95 * drift + mine.gauss(0.0, wander * math.sqrt(1.0 - 0.95**2))
        loss = 2.0 + 3.5 * t**-0.3 + difficulty[t - 1] + drift + mine.gauss(0.0, own) + lift(t)
        if t % stride == 0:
            found.append(Step(t, loss, lr))
    return found


def test_healthy_seed_pairs_fire_in_under_one_percent():
    fired = 0
    for seed in range(300):
        count = 60 + 37 * (seed % 10)
        mine, its = family(f"a{seed}", count), family(f"b{seed}", count, lr=0.5)
        fired += compare(mine, [Sibling("b", its)], THRESHOLDS, None).finding == "degraded"
    assert fired < 3


@pytest.mark.parametrize("seed", range(5))
def test_a_lift_that_stays_is_found(seed):
    lifted = family(f"a{seed}", 400, lift=lambda t: 0.25 if t > 200 else 0.0)
    found = compare(lifted, [Sibling("b", family(f"b{seed}", 400, lr=0.1))], THRESHOLDS, None)
    assert found.finding == "degraded"
    assert abs(found.last_good_step - 200) <= 15


@pytest.mark.parametrize("length", [20, 60])
def test_a_lift_too_short_to_be_sure_of_is_said_only(length):
    lifted = family("a", 400, lift=lambda t: 0.3 if t > 400 - length else 0.0)
    verdict = judge_beside(judge_whole(lifted), lifted, [Sibling("b", family("b", 400, lr=0.1))])
    assert verdict.status is Status.HEALTHY
    assert verdict.evidence["siblings"]["finding"] == "short"


def test_siblings_logged_at_other_steps_are_interpolated():
    lifted = family("a", 600, lift=lambda t: 0.4 if t > 300 else 0.0)
    sparse = [step for step in family("b", 600, lr=0.1) if step.step % 7 == 3]
    found = compare(lifted, [Sibling("b", sparse)], THRESHOLDS, None)
    assert (found.finding, found.evidence["matched"]) == ("degraded", "interpolated")
    assert abs(found.last_good_step - 300) <= 25
    every_other = [step for step in lifted if step.step % 2 == 0]
    assert compare(every_other, [Sibling("b", family("b", 600, lr=0.1))], THRESHOLDS, None).evidence["matched"] == (
        "common steps"
    )


def test_the_envelope_is_the_best_sibling_at_each_step():
    lifted = family("a", 400, lift=lambda t: 0.3 if t > 200 else 0.0)
    poor = Sibling("poor", family("p", 400, lr=0.1, lift=lambda t: 1.0))
    good = Sibling("good", family("b", 400, lr=0.2))
    assert compare(lifted, [poor], THRESHOLDS, None).finding == "none"
    found = compare(lifted, [poor, good], THRESHOLDS, None)
    assert (found.finding, found.evidence["envelope"]) == ("degraded", ["good"])


def test_paired_losses_are_compared_where_they_are_known():
    def run(seed, lr, lift):
        r, found = random.Random(seed), []
        for t in range(1, 301):
            batch = r.gauss(0.0, 0.5)  # other batches: only pairing makes the gap quiet
            level = 2.5 + 2.0 * t**-0.5 + r.gauss(0.0, 0.03) + (lift if t > 150 else 0.0)
            found.append(Step(t, level + batch, lr, 3.2 + batch))
        return found

    mine, its = run("a", 1.0, 0.2), [Sibling("b", run("b", 0.1, 0.0))]
    assert compare(mine, its, THRESHOLDS, 3.2).finding == "degraded"
    assert compare(mine, its, THRESHOLDS, 3.2).evidence["sigma_of_gap"] < 0.1
    assert compare(mine, its, THRESHOLDS, None).evidence["sigma_of_gap"] > 0.4


def test_too_few_common_steps_say_nothing():
    found = compare(family("a", 100), [Sibling("b", family("b", 5, lr=0.1))], THRESHOLDS, None)
    assert (found.finding, found.evidence["left_out"]) == ("no_siblings", {"b": "under 8 steps in common"})
    assert compare(family("a", 100), [Sibling("b", [Step(1, math.nan, 0.1)])], THRESHOLDS, None).evidence[
        "left_out"
    ] == {"b": "no finite sample"}


def test_an_unknown_lr_is_refused():
    unknown = [step._replace(lr=math.nan) for step in family("a", 100)]
    with pytest.raises(ValueError, match="the curve has no LR"):
        compare(unknown, [Sibling("b", family("b", 100))], THRESHOLDS, None)
    with pytest.raises(ValueError, match="b has no LR"):
        compare(family("a", 100), [Sibling("b", unknown)], THRESHOLDS, None)


def test_a_threshold_decides():
    lifted = family("a", 400, lift=lambda t: 0.25 if t > 200 else 0.0)
    siblings = [Sibling("b", family("b", 400, lr=0.1))]
    strict = Thresholds(degradation_margin=0.5)
    healthy = Verdict(Status.HEALTHY, censored=True)
    assert judge_beside(healthy, lifted, siblings).mode is Mode.DEGRADATION
    assert judge_beside(healthy, lifted, siblings, strict).status is Status.HEALTHY
