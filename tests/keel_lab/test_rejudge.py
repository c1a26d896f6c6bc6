"""`keel-lab rejudge`: new verdicts from stored curves, old ones kept and shown, the same bytes again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from keel_lab.cli import cli
from keel_lab.curve import Curve, Step
from keel_lab.detect.agreement import named
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.detect.watch import Watch
from keel_lab.errors import KeelLabError
from keel_lab.result import TrialResult
from keel_lab.schedule.settled import outcome_of
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.simulated_curves import gaussian, log_ramp, losses
from tests.toy_sweep import THRESHOLDS, toy_sweep, toy_trial

H1 = 3.2
STEPS = 200


def learning(t):
    return 2.0 + 3.0 * 0.9**t


def collapsing(t):
    return 3.25 if t > 100 else learning(t)


@pytest.fixture
def folder(tmp_path):
    """A store with `toys`: one trial that collapses at step 100, one that never does, one not run."""
    root = Root.open(tmp_path)
    sweep = toy_sweep(*(toy_trial(seed=seed, steps=STEPS) for seed in range(3)))
    Sweeps(root).save(sweep)
    for seed, planned in enumerate(sweep.trials[:2]):
        values = losses(collapsing if seed == 0 else learning, gaussian(0.03), 2 * STEPS, seed)
        watch, curve = Watch(planned.trial.schedule, THRESHOLDS, H1), Curve()
        for number, value in enumerate(values, start=1):
            step = Step(number, value, log_ramp(number, STEPS), H1)
            curve.append(step)
            if not watch.update(step):
                break
        verdict = watch.verdict()
        thresholds = THRESHOLDS.model_dump(mode="json")
        data = {"unigram_entropy": H1}
        Trials(root).commit(
            TrialResult(planned.trial.id, outcome_of(verdict), len(curve), verdict, thresholds, data=data), curve
        )
    return tmp_path


def rejudge(folder, *overrides, form=()):
    call = ["rejudge", "toys", *overrides, "--storage", str(folder), *form]
    return CliRunner().invoke(cli, call, standalone_mode=False, catch_exceptions=False).output


def as_data(folder, *overrides):
    return json.loads(rejudge(folder, *overrides, form=["--json"]), parse_constant=pytest.fail)


def stored_bytes(folder: Path):
    files = (path for path in folder.rglob("*") if path.is_file() and "index" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def verdict(data):
    return named(Verdict.from_json({key: data[key] for key in data if key not in ("text", "max_lr", "max_lr_kind")}))


def test_new_verdicts_beside_the_old_ones(folder):
    found = as_data(folder, "divergence.confirm_samples=15")
    lost, fine = found["trials"]
    assert [verdict(lost[when]) for when in ("old", "new")] == ["diverged (collapse)"] * 2
    assert lost["new"]["evidence"]["confirmed_step"] == lost["old"]["evidence"]["confirmed_step"] - 5
    assert lost["old"]["max_lr"] == lost["new"]["max_lr"] == log_ramp(100, STEPS)
    assert (fine["old"]["max_lr_kind"], fine["new"]["max_lr"]) == ("censored", pytest.approx(0.1))
    assert not fine["changed"]
    assert (found["not_finished"], found["thresholds"]["new"]["confirm_samples"]) == (1, 15)
    assert set(lost["new"]["evidence"]["detectors"]) == {"streaming-2", "whole-2"}


def test_a_curve_that_ends_too_early_is_undecided_and_says_where_it_ends(folder):
    lost, fine = as_data(folder, "divergence.confirm_samples=50")["trials"]
    ends = lost["old"]["evidence"]["confirmed_step"]
    assert lost["changed"]
    assert (lost["new"]["status"], lost["new"]["text"]) == ("undecided", f"undecided (curve ends at {ends})")
    assert (lost["new"]["max_lr"], lost["new"]["last_good_step"]) == (None, None)
    assert fine["new"]["status"] == "healthy"
    text = rejudge(folder, "divergence.confirm_samples=50")
    assert f"undecided (curve ends at {ends})" in text
    assert "diverged (collapse) at step 101, Max LR 0.003162" in text
    assert "before: confirm_samples 20; now: confirm_samples 50" in text
    assert "2 of 3 trials judged anew by streaming-2; 1 have not finished: keel-lab resume toys" in text
    assert text.splitlines()[-2:] == [
        "1 of 2 changed",
        "report and status keep the sweep's own thresholds; keel-lab run FILE divergence.confirm_samples=50 makes it "
        "these, and trains on the 1 whose curve ends too early",
    ]


def test_the_same_again_gives_the_same_bytes_and_old_judgements_stay(folder):
    first = rejudge(folder, "divergence.confirm_samples=50")
    before = stored_bytes(folder)
    assert rejudge(folder, "divergence.confirm_samples=50") == first
    assert stored_bytes(folder) == before
    rejudge(folder, "divergence.confirm_samples=10")
    after = stored_bytes(folder)
    assert {name: after[name] for name in before} == before
    assert len([name for name in after if "judgements" in name]) == 2
    again = Sweeps(Root.open(folder)).judgements(
        "toys", Thresholds(**{**THRESHOLDS.model_dump(), "confirm_samples": 50})
    )
    assert sorted(one.status for one in again.values()) == [Status.HEALTHY, Status.UNDECIDED]


def test_without_overrides_the_sweeps_own_thresholds_are_used(folder):
    found = as_data(folder)
    assert [one["changed"] for one in found["trials"]] == [False, False]
    assert as_data(folder) == found
    assert "now: the same thresholds" in rejudge(folder)


def test_training_results_are_left_alone(folder):
    trials = Trials(Root.open(folder))
    ids = [planned.trial.id for planned in toy_sweep(*(toy_trial(seed=s, steps=STEPS) for s in range(2))).trials]
    before = {trial_id: trials.result(trial_id) for trial_id in ids}
    rejudge(folder, "divergence.confirm_samples=50")
    assert {trial_id: Trials(Root.open(folder)).result(trial_id) for trial_id in ids} == before
    assert before[ids[0]].verdict.mode is Mode.COLLAPSE


def test_a_judgement_of_a_curve_that_has_gone_on_since_no_longer_speaks(folder):
    rejudge(folder, "divergence.confirm_samples=50")
    root = Root.open(folder)
    sweeps, trials = Sweeps(root), Trials(root)
    longer = Thresholds(**{**THRESHOLDS.model_dump(), "confirm_samples": 50})
    sweep = sweeps.load("toys")
    sweeps.save(replace(sweep, thresholds=longer))
    lost = sweep.trials[0].trial.id
    curve, result = trials.curve(lost), trials.result(lost)
    for number in range(len(curve) + 1, 181):
        curve.append(Step(number, 3.25, log_ramp(number, STEPS), H1))
    trials.commit(TrialResult(**{**result.__dict__, "steps": len(curve)}), curve)
    assert verdict(as_data(folder)["trials"][0]["old"]) == "diverged (collapse)"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["divergence.confirm_sample=50"], "found an unknown key; allowed here: span_samples"),
        (["divergence.confirm_sample=50"], "(did you mean divergence.confirm_samples?)"),
        (["divergence.confirm_samples=many"], "divergence.confirm_samples: found many (a string); must be an integer"),
        (["divergence.confirm_samples=1.5"], "must be an integer of at least 1"),
        (["divergence.lr_decay=2"], "divergence.lr_decay: found 2; must be a number of at least 0 and of at most 1"),
        (["divergence.confirm_samples="], "found nothing"),
        (["confirm_samples=50"], "(did you mean divergence.confirm_samples?)"),
        (["model.width=64"], "only thresholds can be set here"),
        (["faster"], "found no override"),
        (["divergence.cap_sigma=3", "divergence.cap_sigma=3"], "a second time"),
    ],
)
def test_a_wrong_override_is_refused_as_in_a_sweep_file_and_nothing_is_written(folder, overrides, said):
    before = stored_bytes(folder)
    with pytest.raises(KeelLabError) as error:
        rejudge(folder, *overrides)
    assert error.value.exit_code == 2
    assert said in str(error.value)
    assert stored_bytes(folder) == before


def test_everything_wrong_is_said_at_once_and_an_unknown_sweep_is_refused(folder):
    with pytest.raises(KeelLabError) as error:
        rejudge(folder, "divergence.x=1", "divergence.cap_sigma=-1")
    assert len(str(error.value).splitlines()) == 2
    with pytest.raises(KeelLabError, match=r"no sweep 'toy'.*did you mean toys"):
        CliRunner().invoke(
            cli, ["rejudge", "toy", "--storage", str(folder)], standalone_mode=False, catch_exceptions=False
        )
