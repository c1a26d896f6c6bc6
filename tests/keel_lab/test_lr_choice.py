"""`lr: {from: SWEEP, pick: ..., per: cell}`: read, chosen per cell, recorded as numbers, planned again from these."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.errors import SpecError
from keel_lab.plan import Cell
from keel_lab.plan.chosen_lr import RateError
from keel_lab.plan.opening import OpenedSweep, open_sweep
from keel_lab.spec import SweepSpec
from keel_lab.spec.lr_choice import LrChoice
from keel_lab.spec.writing import to_yaml
from keel_lab.trial import Trial

CHOICE = "{from: table1, pick: 0.5*max_lr, per: cell}"
Opener = Callable[..., OpenedSweep]


class Rates:
    """Gives each cell a rate of its own, and some none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rate(self, choice: LrChoice, cell: Cell, trial: Trial) -> tuple[float, str]:
        self.asked.append(str(cell))
        if cell.architecture == "post_ln":
            raise RateError("Max LR > 0.1 (censored)", "raise the peak")
        return {"pre_ln": 2e-2, "keel": 1e-2}[cell.architecture] / cell.blocks, "Max LR 1"


@pytest.fixture
def opened(
    tmp_path: Path, grid_text: str, catalogue: Catalogue, facts: CorpusFacts, monkeypatch: pytest.MonkeyPatch
) -> Opener:
    monkeypatch.setattr(type(catalogue), "corpus", lambda self, data, folder: facts)

    def opener(*overrides: str, rates: Rates | None = None, text: str = grid_text) -> OpenedSweep:
        (tmp_path / "s.yaml").write_text(text)
        return open_sweep(tmp_path / "s.yaml", overrides, catalogue, rates)

    return opener


AXES = ("grid.architecture=[pre_ln, keel]", "grid.depth={blocks: [2, 4]}", "grid.seed=[0, 1]")


def test_each_cell_has_its_own_rate_recorded_as_a_number(opened: Opener) -> None:
    rates = Rates()
    got = opened(*AXES, f"grid.lr={CHOICE}", rates=rates)
    lrs = {(one.cell.architecture, one.cell.blocks): one.trial.schedule.lr for one in got.plan.trials}
    assert lrs == {("pre_ln", 2): 1e-2, ("pre_ln", 4): 5e-3, ("keel", 2): 5e-3, ("keel", 4): 2.5e-3}
    assert len(got.plan.trials) == 8
    assert len(rates.asked) == 4  # once a cell, whatever its seeds
    labels = got.plan.trials[0].labels
    assert (labels["lr"], labels["lr_from"]) == (1e-2, "0.5*max_lr of table1")
    assert got.plan.trials[0].cell.axes == ()
    assert got.notes[0] == "lr of pre_ln 2 blocks: 0.01, 0.5*max_lr of table1 (Max LR 1)"
    assert got.spec.document["grid"]["lr"] == {
        "from": "table1", "pick": "0.5*max_lr", "per": "cell",
        "rates": {"pre_ln 2 blocks": 1e-2, "keel 2 blocks": 5e-3, "pre_ln 4 blocks": 5e-3, "keel 4 blocks": 2.5e-3},
    }  # fmt: skip


def test_the_id_is_that_of_the_same_number_given_by_hand(opened: Opener) -> None:
    chosen = opened("grid.architecture=[pre_ln]", "grid.depth={blocks: [2]}", f"grid.lr={CHOICE}", rates=Rates())
    given = opened("grid.architecture=[pre_ln]", "grid.depth={blocks: [2]}", "grid.lr=[0.01]")
    assert [one.trial.id for one in chosen.plan.trials] == [one.trial.id for one in given.plan.trials]


def test_a_resolved_sweep_plans_the_same_without_storage(opened: Opener) -> None:
    first = opened(*AXES, f"grid.lr={CHOICE}", rates=Rates())
    again = opened(text=to_yaml(first.spec.document))
    assert again.plan == first.plan
    assert again.notes == ()
    assert SweepSpec.from_json(json.loads(json.dumps(first.spec.to_json()))) == first.spec
    with pytest.raises(SpecError, match="give one to every cell, or remove rates"):
        opened("grid.depth={blocks: [8]}", text=to_yaml(first.spec.document))


def test_every_cell_without_a_rate_is_named_with_file_and_line(opened: Opener, grid_text: str) -> None:
    text = grid_text.replace("lr: [1e-3, 3e-3]", f"lr: {CHOICE}")
    with pytest.raises(SpecError) as error:
        opened("grid.architecture=[post_ln, keel]", "grid.depth={blocks: [2, 4]}", rates=Rates(), text=text)
    said = str(error.value).splitlines()
    assert [one.partition("s.yaml:")[2] for one in said] == [
        f"4: grid.lr: found Max LR > 0.1 (censored) for post_ln {blocks} blocks; raise the peak" for blocks in (2, 4)
    ]


def test_a_cosine_must_fall(opened: Opener) -> None:
    with pytest.raises(SpecError, match=r"found the chosen 0.01 for pre_ln 2 blocks; the cosine falls to final_lr"):
        opened(
            "grid.architecture=[pre_ln]", "grid.depth={blocks: [2]}", f"grid.lr={CHOICE}", "schedule.final_lr=0.1",
            rates=Rates(),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{from: t}", "grid.lr.pick: found nothing; required beside the others"),
        ("{pick: best}", "grid.lr.from: found nothing; required beside the others"),
        ("{from: t, pick: bets}", "grid.lr.pick: found bets; must be best (of a grid sweep), or a multiple"),
        ("{from: t, pick: 2*maxlr}", "grid.lr.pick: found 2*maxlr; must be best"),
        ("{from: t, pick: 0*max_lr}", "grid.lr.pick: found 0*max_lr; must be above 0 times max_lr"),
        ("{from: t, pick: 0.5}", "grid.lr.pick: found 0.5; must be text"),
        ("{from: 7, pick: best}", "grid.lr.from: found 7; must be text"),
        ("{from: t, pick: best, per: seed}", "grid.lr.per: found seed; must be cell"),
        ("{from: t, pick: best, at: 1}", "grid.lr.at: found an unknown key; allowed here: from, pick, per, rates"),
        ("{from: t, pick: best, rates: 1e-3}", "grid.lr.rates: found 1e-3; holds the LRs that were chosen"),
        ("{from: t, pick: best, rates: {a: -1}}", "grid.lr.rates: found a: -1; must be an LR above 0"),
    ],
)
def test_mistakes(opened: Opener, written: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        opened(f"grid.lr={written}", rates=Rates())
    assert said in str(error.value)


def test_it_stands_under_grid_of_protocol_grid(opened: Opener) -> None:
    with pytest.raises(SpecError, match="LRs of another sweep stand under grid: move it there"):
        opened("grid.lr=null", f"schedule.lr={CHOICE}")
    with pytest.raises(SpecError, match="protocol ramp moves the learning rate itself"):
        opened("protocol=ramp", f"grid.lr={CHOICE}", "schedule=null")
