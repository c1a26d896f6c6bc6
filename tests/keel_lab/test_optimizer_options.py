"""Options of optimizers: whose they are, what makes no difference, and the ids of trials that were there before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.errors import SpecError
from keel_lab.plan import Plan, expand
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.spec import SweepSpec
from keel_lab.trial import Trial

Reader = Callable[..., SweepSpec]
ONE = ("grid.architecture=[pre_ln]", "grid.depth.blocks=[4]", "grid.seed=[0]")


@pytest.fixture
def plan(read: Reader, catalogue: Catalogue, facts: CorpusFacts) -> Callable[..., Plan]:
    return lambda text, *overrides: expand(read(text, *ONE, *overrides), catalogue, facts)


def test_ids_of_trials_without_the_new_fields_stay() -> None:
    trial = Trial(
        architecture="pre_ln", options={}, blocks=1, model=ModelSettings(), data=None, train=TrainSettings(),
        schedule=RampSchedule(),
    )  # fmt: skip
    assert trial.id == "2e899f45fd96da85"
    assert trial.model_copy(update={"train": TrainSettings(z_loss=1e-4)}).id != trial.id


@pytest.mark.parametrize(
    ("optimizer", "given", "said"),
    [
        ("sgd", "train.betas=[0.9,0.99]", "sgd has no such option: remove it, or set optimizer: adamw or lion or muon"),
        ("sgd", "train.eps=1e-6", "sgd has no such option: remove it, or set optimizer: adamw or muon"),
        ("lion", "train.eps=1e-6", "lion has no such option"),
        ("lion", "train.momentum=0.5", "lion has no such option: remove it, or set optimizer: sgd or muon"),
        ("adamw", "train.momentum=[0.5,0.9]", "adamw has no such option: remove it, or set optimizer: sgd or muon"),
        ("adamw", "train.nesterov=false", "adamw has no such option"),
        ("sgd", "train.ns_steps=3", "sgd has no such option: remove it, or set optimizer: muon"),
    ],
)
def test_an_option_that_no_optimizer_of_the_sweep_has_is_refused(
    plan: Callable[..., Plan], good: str, optimizer: str, given: str, said: str
) -> None:
    with pytest.raises(SpecError) as error:
        plan(good, f"train.optimizer={optimizer}", given)
    assert f"{given.partition('=')[0]}: found" in str(error.value)
    assert said in str(error.value)


def test_an_option_that_one_of_two_optimizers_lacks_collapses(plan: Callable[..., Plan], good: str) -> None:
    got = plan(good, "train.optimizer=[adamw,sgd]", "train.momentum=[0.5,0.9]")
    assert [planned.name for planned in got.trials] == [
        "pre_ln-b4-optimizer=adamw-s0",
        "pre_ln-b4-optimizer=sgd-momentum=0.5-s0",
        "pre_ln-b4-optimizer=sgd-momentum=0.9-s0",
    ]
    assert got.trials[0].trial.train == TrainSettings()
    assert got.collapsed == 1


def test_no_clip_is_one_thing_however_it_is_written(plan: Callable[..., Plan], good: str) -> None:
    ways = ("train.clip=off", "train.clip_norm=off", "train.clip_norm=off train.clip=per_sublayer")
    found = {plan(good, *way.split()).trials[0].trial.id for way in ways}
    assert len(found) == 1
    got = plan(good, "train.clip=[off,global,per_sublayer]", "train.clip_norm=[0.5,1]")
    assert {planned.name for planned in got.trials} == {
        "pre_ln-b4-clip=off-s0",
        *(f"pre_ln-b4-clip_norm={norm}-clip={clip}-s0" for norm in ("0.5", "1") for clip in ("global", "per_sublayer")),
    }
    assert got.collapsed == 1
