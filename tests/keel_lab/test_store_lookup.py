"""Finding a trial by id, prefix or name, and what is said when there is none or more than one."""

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.detect.thresholds import Thresholds
from keel_lab.errors import UsageError
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.store.lookup import find_trial
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial


def planned(architecture, seed, peak=0.1):
    trial = Trial(
        architecture=architecture, options={}, blocks=4, model=ModelSettings(), data=None, train=TrainSettings(),
        schedule=RampSchedule(peak_lr=peak), init_seed=seed, data_seed=seed,
    )  # fmt: skip
    return PlannedTrial(trial, Cell(architecture, 4), {}, 1)


@pytest.fixture
def root(tmp_path):
    """Sweeps `one` and `two` share keel's seed 0; their pre_ln-b4-s0 differ."""
    root = Root.open(tmp_path / "store")
    facts = CorpusFacts("f" * 64, 10_000, 256, "bytes", "stdlib")
    shared = planned("keel", 0)
    for name, own in (("one", planned("pre_ln", 0)), ("two", planned("pre_ln", 0, peak=0.2))):
        Sweeps(root).save(StoredSweep(name, {}, Thresholds(), facts, (shared, planned("keel", 1), own)))
    return root


def test_by_name_id_and_prefix(root):
    keel = planned("keel", 0).trial.id
    for text in ("keel-b4-s0", keel, keel[:6]):
        found = find_trial(root, text)
        assert (found.trial_id, found.name) == (keel, "keel-b4-s0")
        assert [home.sweep.name for home in found.homes] == ["one", "two"]
    assert find_trial(root, "pre_ln-b4-s0", "two").trial_id == planned("pre_ln", 0, peak=0.2).trial.id


def test_a_trial_that_no_sweep_names_is_found_by_its_id(root):
    lost = planned("keel", 9).trial
    Trials(root).put_trial(lost)
    found = find_trial(root, lost.id[:8])
    assert (found.trial_id, found.name, found.homes) == (lost.id, lost.id, ())
    with pytest.raises(UsageError, match="no trial"):
        find_trial(root, lost.id, "one")


def test_an_unknown_trial_names_the_nearest(root):
    with pytest.raises(UsageError, match=r"no trial 'kel-b4-s0' in .*did you mean keel-b4-s0"):
        find_trial(root, "kel-b4-s0")
    with pytest.raises(UsageError, match="there are keel-b4-s0, keel-b4-s1, pre_ln-b4-s0"):
        find_trial(root, "zzz")
    with pytest.raises(UsageError, match="it holds none"):
        find_trial(Root.open(f"{root.uri}-empty"), "keel-b4-s0")
    with pytest.raises(UsageError, match="no sweep 'three'"):
        find_trial(root, "keel-b4-s0", "three")


def test_a_name_of_two_trials_asks_for_the_sweep(root):
    with pytest.raises(UsageError, match=r"means 2 trials .*\(pre_ln-b4-s0 in one\).*SWEEP/NAME"):
        find_trial(root, "pre_ln-b4-s0")
    assert [home.sweep.name for home in find_trial(root, "one/pre_ln-b4-s0").homes] == ["one"]
    with pytest.raises(UsageError, match="no trial 'keel-b4-s7' in sweep one"):
        find_trial(root, "one/keel-b4-s7")


def test_a_damaged_sweep_is_warned_of_and_hides_no_other(root, caplog):
    root.write("sweeps/broken/sweep.json", b"{")
    assert find_trial(root, "one/pre_ln-b4-s0").name == "pre_ln-b4-s0"
    assert caplog.text == ""
    assert find_trial(root, "keel-b4-s1").name == "keel-b4-s1"
    assert "trials of sweep broken are not looked through" in caplog.text


def test_a_prefix_that_is_too_short_finds_nothing(root):
    with pytest.raises(UsageError, match="no trial"):
        find_trial(root, planned("keel", 0).trial.id[:3])
