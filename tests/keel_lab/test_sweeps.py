"""Every shipped sweep is planned with the architectures that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.plan import Plan, expand
from keel_lab.spec import SweepSpec, load
from trainers.catalogue import CATALOGUE

FOLDER = Path(__file__).parents[2] / "sweeps"
SHIPPED = sorted(FOLDER.glob("*.yaml"))
SIX = ["post_ln", "deepnorm", "hybridnorm", "mix_ln", "pre_ln", "keel"]
KEYS = ["schema", "name", "question", "protocol", "grid", "per_architecture", "model", "data", "train", "ramp"]
KEYS += ["siblings", "divergence", "resources", "budget"]


def planned(path: Path, facts: CorpusFacts) -> tuple[SweepSpec, Plan]:
    spec = load(path, [], CATALOGUE)
    return spec, expand(spec, CATALOGUE, facts)


def test_sweeps_ship() -> None:
    assert {"quickstart.yaml", "table1.yaml"} <= {path.name for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_sweep_plans_and_says_what_it_is_for(path: Path, facts: CorpusFacts) -> None:
    spec, plan = planned(path, facts)
    assert spec.name == path.stem
    assert spec.question
    assert plan.trials if spec.search is None else spec.search.points  # a search asks as it goes
    assert len({trial.name for trial in plan.trials}) == len(plan.trials)
    assert all(trial.parameters > 0 for trial in plan.trials)
    header = [line for line in path.read_text().splitlines() if line.startswith("#")][:3]
    assert [line.split(":")[0] for line in header] == ["# Question", "# Cost", "# Table"]


def test_quickstart_is_six_architectures_at_16_blocks(facts: CorpusFacts) -> None:
    spec, plan = planned(FOLDER / "quickstart.yaml", facts)
    assert [trial.cell.architecture for trial in plan.trials] == SIX
    assert {(trial.trial.blocks, trial.trial.model.width, trial.trial.schedule.steps) for trial in plan.trials} == {
        (16, 32, 600)
    }
    assert list(spec.document) == KEYS


def test_quickstart_has_the_form_of_the_designs_example(facts: CorpusFacts) -> None:
    lines = [line for line in (FOLDER / "quickstart.yaml").read_text().splitlines() if not line.startswith("#")]
    assert [line.split(":")[0] for line in lines if line and not line.startswith(" ")] == KEYS


def test_table1_is_six_architectures_at_two_depths_with_five_seeds(facts: CorpusFacts) -> None:
    _, plan = planned(FOLDER / "table1.yaml", facts)
    trials = plan.trials
    assert [trial.cell.architecture for trial in trials[:12:2]] == SIX
    assert {trial.cell.blocks for trial in plan.trials} == {16, 32}
    assert {trial.trial.init_seed for trial in plan.trials} == {0, 1, 2, 3, 4}
    assert len(trials) == 60
