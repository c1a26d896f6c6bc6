"""The order in which trials tell most."""

from __future__ import annotations

import pytest

from benchmarks.sweep_order import LRS, grid, known_after
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.plan.planned import Role
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.information import InformationOrder, ends_first
from keel_lab.schedule.proposer import ListProposer
from keel_lab.settings import SiblingSettings
from tests.toy_sweep import toy_sweep, toy_trial

HEALTHY, LOST = Verdict(Status.HEALTHY), Verdict(Status.DIVERGED, Mode.COLLAPSE)
STALLED = Verdict(Status.DIVERGED, Mode.STAGNATION)


def place(planned):
    return LRS.index(planned.trial.schedule.lr)


def family():
    """The twelve LRs of one architecture, depth and seed."""
    return [one for one in grid() if (one.cell.architecture, one.cell.blocks, one.trial.init_seed) == ("arch0", 4, 0)]


@pytest.mark.parametrize(
    ("count", "order"), [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 2, 1]), (5, [0, 4, 2, 1, 3]), (6, [0, 5, 2, 1, 3, 4])]
)
def test_from_the_ends_inwards(count, order):
    assert ends_first(count) == order


@pytest.mark.parametrize("boundary", range(1, 13))
def test_a_family_is_bisected_and_then_filled_in_from_its_boundary(boundary):
    order, asked = InformationOrder(family()), []
    while (one := order.pop()) is not None:
        asked.append(place(one))
        order.tell(one, LOST if place(one) >= boundary else HEALTHY)
    assert sorted(asked) == list(range(12))
    needed = {boundary - 1, boundary} & set(range(12))
    assert needed <= set(asked[:4]), "log2 of 13 gaps"
    rest = [abs(at - (boundary - 1)) for at in asked if at not in asked[:4]]
    assert rest == sorted(rest)


def test_two_at_once_halve_what_is_left_together():
    order = InformationOrder(family())
    first, second = order.pop(), order.pop()
    assert (place(first), place(second)) == (5, 2)


def test_a_rate_too_small_to_learn_is_no_boundary():
    order = InformationOrder(family())
    first = order.pop()
    order.tell(first, STALLED)
    assert place(order.pop()) > place(first)


def test_every_cell_has_its_first_seed_before_any_its_second():
    sweep = toy_sweep(*[toy_trial(name, seed=seed) for name in ("a", "b", "c") for seed in range(3)])
    order, seeds = InformationOrder(sweep.trials), []
    while (one := order.pop()) is not None:
        seeds.append(one.trial.init_seed)
    assert seeds == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_ramp_comes_after_its_reference_which_it_waits_for():
    trials = [toy_trial(name, seed=seed) for name in ("a", "b") for seed in range(2)]
    sweep = toy_sweep(*trials, siblings=SiblingSettings())
    proposer = ListProposer(sweep.trials, sweep.siblings, by_information=True)
    first, second = proposer.ask(), proposer.ask()
    assert [one.role for one in (first, second)] == [Role.REFERENCE] * 2
    assert [one.trial.architecture for one in (first, second)] == ["a", "b"]
    proposer.tell(first, TrialResult(first.trial.id, Outcome.COMPLETED, 1, HEALTHY, {}), HEALTHY)
    third = proposer.ask()
    assert (third.role, third.trial.id) == (Role.TRIAL, trials[0].id)


@pytest.mark.parametrize("by_information", [False, True])
def test_every_trial_is_asked_once(by_information):
    trials = grid()
    proposer, asked = ListProposer(trials, by_information=by_information), []
    while (one := proposer.ask()) is not None:
        asked.append(one.trial.id)
        if len(asked) % 3 == 0:
            proposer.failed(one)
    assert sorted(asked) == sorted(one.trial.id for one in trials)


def test_a_sweep_stopped_early_knows_more_than_in_the_grids_order():
    trials = grid()
    ours, plain = (known_after(trials, by_information=how, draw=0) for how in (True, False))
    for share in (0.25, 0.5):
        families, cells = zip(ours[share], plain[share], strict=True)
        assert families[0] > 1.9 * families[1]
        assert cells[0] == 1.0 > cells[1]
