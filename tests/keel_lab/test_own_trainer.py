"""A trainer that the sweep file names: its architectures, its numerics, and sweeps without a corpus."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from keel_lab import own_trainer
from keel_lab.architecture import Declaration, Option
from keel_lab.errors import SpecError, UsageError
from keel_lab.own_trainer import NO_CORPUS
from keel_lab.plan import expand
from keel_lab.spec import parse
from keel_lab.spec.sweep import SweepSpec
from keel_lab.spec.writing import to_yaml
from tests.command_line import TOYS, call
from trainers.catalogue import CATALOGUE

LAYERED = Declaration(
    "layered",
    "Layered",
    "nowhere",
    lambda model, blocks, options: 7 * blocks,
    {"gain": Option("rule", "L/2", "factor", low=0.0, open_low=True)},
)


@pytest.fixture
def job(monkeypatch):
    """A trainer module with architectures of its own."""
    module = SimpleNamespace(preflight=print, run=print, ARCHITECTURES=[LAYERED], NUMERICS=3)
    monkeypatch.setitem(sys.modules, "my_job", module)
    return module


def read(text, tmp_path, *overrides):
    return parse(text, "s.yaml", tmp_path, list(overrides), CATALOGUE)


def plan(spec):
    catalogue = own_trainer.catalogue_for(spec.trainer, CATALOGUE)
    return expand(spec, catalogue, catalogue.corpus(spec.data, spec.folder))


def own(architecture, more=""):
    text = TOYS.replace("tests.toy_trainer", "my_job").replace("[toy_crash, toy]", architecture)
    return text.replace("grid:", f"{more}grid:")


def test_its_architectures_have_options_and_parameters(job, tmp_path):
    spec = read(own("layered").replace("[4]}", "[4]}\n  gain: [1, L]"), tmp_path)
    trials = plan(spec).trials
    assert [(one.trial.trainer, one.trial.options, one.parameters) for one in trials] == [
        ("my_job", {"gain": 1.0}, 28),
        ("my_job", {"gain": 8.0}, 28),
    ]
    assert {one.trial.data for one in trials} == {None}
    with pytest.raises(SpecError, match=r"found layred; must be one of layered.*did you mean layered\?"):
        read(own("layred"), tmp_path)
    with pytest.raises(SpecError, match="gain: found 0; must be a number above 0"):
        read(own("layered", "per_architecture: {layered: {gain: 0}}\n"), tmp_path)


def test_without_a_list_any_word_will_do_and_shipped_ones_keep_their_options(job, tmp_path):
    del job.ARCHITECTURES
    trials = plan(read(own("[whatever, keel]"), tmp_path)).trials
    assert [(one.trial.architecture, one.trial.options.get("alpha"), one.parameters > 0) for one in trials] == [
        ("whatever", None, False),
        ("keel", 8.0, True),
    ]
    with pytest.raises(SpecError, match="found two words; must be one of"):
        read(own("[two words]"), tmp_path)


def test_numerics_are_part_of_the_id(job, tmp_path):
    text = own("layered")
    (before,) = plan(read(text, tmp_path)).trials
    job.NUMERICS = 4
    (after,) = plan(read(text, tmp_path)).trials
    assert (before.trial.numerics, after.trial.numerics) == (3, 4)
    assert before.trial.id != after.trial.id


def test_its_sweep_is_stored_and_written_with_its_name(job, tmp_path):
    spec = read(own("layered"), tmp_path)
    assert SweepSpec.from_json(json.loads(json.dumps(spec.to_json()))).trainer == "my_job"
    assert read(to_yaml(spec.document), tmp_path).document == spec.document
    assert spec.document["data"] == {}
    ours = read(own("pre_ln").replace("trainer: my_job\n", ""), tmp_path)
    assert "trainer" not in ours.to_json()  # sweeps stored before there were others stay what they are
    assert "trainer" not in ours.document


def test_a_sweep_with_data_has_a_corpus(job, tmp_path):
    (tmp_path / "a.txt").write_text("words " * 2000)
    spec = read(own("layered", "data: {text: a.txt}\n"), tmp_path)
    (planned,) = plan(spec).trials
    assert planned.trial.data is not None
    assert own_trainer.catalogue_for("my_job", CATALOGUE).corpus({}, tmp_path) is NO_CORPUS


def test_what_is_no_trainer_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "half", SimpleNamespace(run=print))
    with pytest.raises(UsageError, match=r"the module has no preflight\(\);"):
        own_trainer.load("half")
    module = SimpleNamespace(run=print, preflight=print, ARCHITECTURES=["layered"])
    monkeypatch.setitem(sys.modules, "odd", module)
    with pytest.raises(UsageError, match="its ARCHITECTURES hold 'layered'; each must be a"):
        own_trainer.load("odd")


def test_plan_and_report_say_what_is_not_known(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toys.yaml").write_text(TOYS.replace("toy_crash, ", ""))
    text = call(capsys, "plan", "toys.yaml").out
    assert "corpus          none" in text
    assert "unknown" in text
    told = json.loads(call(capsys, "plan", "toys.yaml", "--json").out)
    assert (told["cells"][0]["parameters"], told["cells"][0]["tokens"]) == (None, 0)
    ran = call(capsys, "run", "toys.yaml", "--executor", "local", "--tracking", "off")
    assert "Trained by tests.toy_trainer; " in ran.out
    assert "tokens a step" not in ran.out
    assert not (tmp_path / "keel-lab-store" / "data").exists()
    assert call(capsys, "resume", "toys", "--executor", "local", "--tracking", "off").code == 0
