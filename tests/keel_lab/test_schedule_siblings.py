"""References and forks: planned, run in order, started from checkpoints, and judged. Trials are toys, but real runs."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from analysis.readings import Counting, read
from keel_lab.detect.max_lr import MaxLRKind
from keel_lab.detect.reversal import REVERSAL
from keel_lab.detect.siblings import SIBLINGS
from keel_lab.detect.verdict import Mode, Status
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Role
from keel_lab.plan.siblings import reference_of, with_forks
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.rejudge import describe_rejudgement
from keel_lab.schedule.runner import SweepRun
from keel_lab.settings import Budget, ForkSchedule, SiblingSettings
from keel_lab.store import lease
from keel_lab.store.lookup import find_trial
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import NullTracker
from tests.toy_sweep import THRESHOLDS, toy_sweep, toy_trial
from tests.toy_trainer import starts

REFERENCE = SiblingSettings()
HOLDS = SiblingSettings(holds=3)
REVERSAL_FORKS = SiblingSettings(reference=False, reversibility=True, fork_steps=80)


class Noting(LocalExecutor):
    def __init__(self):
        super().__init__()
        self.order = []

    def submit(self, task):
        self.order.append(task)
        super().submit(task)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SIDE", str(tmp_path / "side"))
    return Root.open(tmp_path / "store")


@pytest.fixture
def go(root):
    """Runs a sweep as the command line would, and returns its summary and the tasks in their order."""

    def run(sweep, **budget):
        Sweeps(root).save(sweep)
        executor = Noting()
        with lease.hold(root, sweep.name) as held:
            summary = SweepRun(
                sweep,
                root,
                executor,
                NullTracker(),
                ListProposer(sweep.trials, sweep.siblings),
                PlainLines(io.StringIO()),
                Budget(**budget),
                Interrupts(),
            ).run(held)
        return summary, executor.order

    return run


def forks(root, sweep):
    results = Trials(root).results([one.trial.id for one in sweep.trials])
    return {one.name.split("-s0-")[1]: one for one in with_forks(sweep.trials, results, sweep.siblings)[1:]}


def reading(root, name="toys"):
    (one,) = read([name], root)[0].readings
    return one


def test_a_reference_is_planned_once_and_run_first(go, root):
    sweep = toy_sweep(toy_trial(), toy_trial(seed=1), siblings=REFERENCE)
    assert [(one.role, one.trial.schedule.peak_lr) for one in sweep.trials] == [
        (Role.REFERENCE, 0.01),
        (Role.TRIAL, 0.1),
    ] * 2
    assert len({one.name for one in sweep.trials}) == 4
    summary, order = go(sweep)
    assert (summary.completed, summary.exit_code) == (4, 0)
    assert [task.trial.schedule.peak_lr for task in order] == [0.01, 0.01, 0.1, 0.1]


def test_a_reference_that_is_a_trial_of_the_sweep_stays_one(go, root):
    trial = toy_trial()
    low = reference_of(trial)
    sweep = toy_sweep(trial, low, siblings=REFERENCE)
    roles = {one.trial.id: one.role for one in sweep.trials}
    assert (roles[trial.id], roles[low.id], len(roles)) == (Role.TRIAL, Role.TRIAL, 3)
    _, order = go(sweep)
    assert [task.trial.schedule.peak_lr for task in order] == [0.001, 0.01, 0.1]


def test_a_narrow_ramp_has_a_reference_that_rises():
    trial = toy_trial()
    narrow = trial.with_schedule(trial.schedule.model_copy(update={"from_lr": 0.05}))
    assert (reference_of(narrow).schedule.from_lr, reference_of(narrow).schedule.peak_lr) == (0.005, 0.01)


def test_a_run_that_does_not_learn_stops_at_three_times_the_step_of_its_reference(go, root, tmp_path):
    trial = toy_trial(stall_peak=0.05)
    sweep = toy_sweep(trial, siblings=REFERENCE)
    go(sweep)
    trials = Trials(root)
    learned = trials.result(reference_of(trial).id).verdict.evidence["learned_step"]
    result = trials.result(trial.id)
    assert 1 < learned < 50
    assert (result.steps, result.learn_by, len(trials.curve(trial.id))) == (3 * learned,) * 3
    assert (result.verdict.status, result.verdict.mode) == (Status.DIVERGED, Mode.STAGNATION)
    assert result.verdict.evidence["learn_by"] == 3 * learned
    again, order = go(sweep)
    assert (again.reused, order) == (2, [])
    go(toy_sweep(trial, name="alone"))  # nothing to compare with: it goes on where it was stopped, to its end
    assert starts(tmp_path / "side", trial.id) == [0, 3 * learned]
    assert (trials.result(trial.id).steps, trials.result(trial.id).learn_by) == (200, None)
    back, order = go(sweep)  # the longer curve answers for the shorter one
    assert (back.reused, order) == (2, [])
    assert Sweeps(root).judgements("toys", THRESHOLDS)[trial.id].evidence["learn_by"] == 3 * learned


def test_a_run_that_learns_in_time_is_none_of_this(go, root):
    trial = toy_trial()
    go(toy_sweep(trial, name="alone"))
    summary, order = go(toy_sweep(trial, siblings=REFERENCE))
    assert (summary.reused, len(order)) == (1, 1)


def test_a_reference_that_fails_stops_nothing(go, root):
    trial = toy_trial("toy_crash")
    summary, order = go(toy_sweep(trial, siblings=REFERENCE))
    assert summary.failed == 2
    assert {task.trial.id for task in order} == {trial.id, reference_of(trial).id}


def test_holds_start_from_checkpoints_of_the_levels_passed_in_good_order(go, root, tmp_path):
    trial = toy_trial(collapse_lr=0.01)
    sweep = toy_sweep(trial, siblings=SiblingSettings(reference=False, holds=3))
    summary, _ = go(sweep)
    found = forks(root, sweep)
    assert list(found) == ["hold-from-50", "hold-from-100"]  # 150 lies beyond the onset, at 134
    assert (summary.completed, summary.diverged, summary.exit_code) == (2, 1, 0)
    for name, at in (("hold-from-50", 50), ("hold-from-100", 100)):
        fork = found[name].trial
        assert starts(tmp_path / "side", fork.id) == [at]
        curve, trunk = Trials(root).curve(fork.id).steps, Trials(root).curve(trial.id).steps
        assert curve[:at] == trunk[:at]
        assert {step.lr for step in curve[at:]} == {lr_at(trial.schedule, at)}
        assert len(curve) == 200


def test_a_fork_without_a_checkpoint_runs_from_its_start_to_the_same_bytes(go, root, tmp_path):
    trial = toy_trial(collapse_lr=0.01)
    sweep = toy_sweep(trial, siblings=SiblingSettings(reference=False, holds=1))
    go(sweep)
    fork = forks(root, sweep)["hold-from-100"].trial
    curve = Trials(root).curve(fork.id).to_parquet()
    shutil.rmtree(tmp_path / "store" / "trials" / fork.id)
    shutil.rmtree(tmp_path / "store" / "trials" / trial.id / "kept")
    go(sweep)
    assert starts(tmp_path / "side", fork.id) == [100, 0]
    assert Trials(root).curve(fork.id).to_parquet() == curve


def test_held_runs_that_fail_too_bound_what_was_never_learned(go, root):
    trial = toy_trial(stall_peak=0.05)
    go(toy_sweep(trial, siblings=HOLDS))
    assert reading(root).max_lr.kind is MaxLRKind.BELOW
    assert reading(root).max_lr.lr == pytest.approx(lr_at(trial.schedule, 50))
    go(toy_sweep(trial, name="unheld", siblings=REFERENCE))
    assert reading(root, "unheld").max_lr.kind is MaxLRKind.NOT_LEARNED


def test_degradation_counts_from_where_the_gap_to_the_siblings_opens(go, root):
    trial = toy_trial(slow_lr=1.5e-4, slow_peak=0.05)
    go(toy_sweep(trial, siblings=REFERENCE))
    stored = Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS)[trial.id]
    assert stored.evidence["siblings"]["used"]
    one = reading(root)
    slow = next(step for step in range(1, 201) if lr_at(trial.schedule, step) >= 1.5e-4)
    assert one.max_lr.kind is MaxLRKind.CENSORED  # by itself it still falls
    assert one.degradation.mode is Mode.DEGRADATION
    assert one.counting(Counting.DEGRADATION).kind is MaxLRKind.MEASURED
    assert abs(one.degradation.onset_step - slow) <= 3
    assert one.counting(Counting.IRREVERSIBLE) is None  # nobody asked for those forks


def test_a_loss_that_a_tenth_of_the_rate_undoes_is_reversible(go, root, tmp_path):
    trial = toy_trial(collapse_lr=0.01)
    sweep = toy_sweep(trial, siblings=REVERSAL_FORKS)
    go(sweep)
    result = Trials(root).result(trial.id)
    found = forks(root, sweep)
    good = result.verdict.last_good_step
    assert set(found) == {f"now-from-{result.steps}", f"before-from-{good}"}
    assert starts(tmp_path / "side", found[f"now-from-{result.steps}"].trial.id) == [result.steps]
    assert 0 < starts(tmp_path / "side", found[f"before-from-{good}"].trial.id)[0] <= good
    for fork in found.values():
        assert isinstance(fork.trial.schedule, ForkSchedule)
        assert len(Trials(root).curve(fork.trial.id)) == result.steps + 80
    judged = Sweeps(root).judgements("toys", THRESHOLDS, REVERSAL)[trial.id]
    assert (judged.status, judged.censored, judged.last_good_step) == (Status.TRANSIENT, True, result.steps)
    one = reading(root)
    assert one.max_lr.kind is MaxLRKind.MEASURED
    assert one.counting(Counting.IRREVERSIBLE).kind is MaxLRKind.CENSORED
    assert one.counting(Counting.IRREVERSIBLE).lr == pytest.approx(lr_at(trial.schedule, result.steps))


def test_a_loss_for_good_is_irreversible(go, root):
    trial = toy_trial(break_lr=0.01)
    go(toy_sweep(trial, siblings=REVERSAL_FORKS))
    one = reading(root)
    assert one.irreversible.evidence["reversal"]["finding"] == "irreversible"
    assert one.counting(Counting.IRREVERSIBLE) == one.max_lr


def test_a_run_that_did_not_diverge_is_as_censored_by_every_rule(go, root):
    go(toy_sweep(toy_trial(), siblings=SiblingSettings(reversibility=True)))
    one = reading(root)
    assert {one.counting(rule).kind for rule in Counting} == {MaxLRKind.CENSORED}


def test_a_budget_leaves_forks_for_resume_and_says_so(go, root):
    sweep = toy_sweep(toy_trial(break_lr=0.01), siblings=REVERSAL_FORKS)
    summary, _ = go(sweep, trials=1)
    assert (summary.left, summary.exit_code) == (2, 3)
    assert read(["toys"], root)[0].finished == 1
    assert read(["toys"], root)[0].total == 3
    summary, order = go(sweep)
    assert (summary.left, summary.exit_code, len(order), summary.reused) == (0, 0, 2, 1)
    assert Path(root.local("trials") or "").is_dir()


def test_rejudging_judges_beside_the_siblings_anew_and_keeps_what_was(go, root):
    trial = toy_trial(slow_lr=1.5e-4, slow_peak=0.05)
    go(toy_sweep(trial, siblings=REFERENCE))
    own = Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS)
    text = describe_rejudgement("toys", ["divergence.degradation_margin=1"], root, as_json=False)
    assert "by siblings-1" in text
    assert text.splitlines()[-2] == "1 of 2 changed"
    found = json.loads(describe_rejudgement("toys", ["divergence.degradation_margin=1"], root, as_json=True))
    (one,) = (row for row in found["trials"] if row["id"] == trial.id)
    old, new = one["beside"][SIBLINGS]
    assert (old["mode"], new["status"], one["changed"]) == ("degradation", "healthy", True)
    assert one["old"]["status"] == one["new"]["status"] == "healthy"
    assert Sweeps(root).judgements("toys", THRESHOLDS, SIBLINGS) == own
    other = THRESHOLDS.model_copy(update={"degradation_margin": 1.0})
    assert Sweeps(root).judgements("toys", other, SIBLINGS)[trial.id].status is Status.HEALTHY
    assert reading(root).degradation.mode is Mode.DEGRADATION


def test_a_fork_is_found_by_its_name(go, root):
    sweep = toy_sweep(toy_trial(break_lr=0.01), siblings=REVERSAL_FORKS)
    go(sweep)
    for fork in forks(root, sweep).values():
        assert find_trial(root, fork.name).trial_id == fork.trial.id


def test_a_fork_that_had_too_few_steps_bounds_nothing(go, root):
    """None of its siblings learned: it may be the steps, not the LR."""
    go(toy_sweep(toy_trial(stall_peak=0.0), siblings=HOLDS))
    assert reading(root).max_lr.kind is MaxLRKind.NOT_LEARNED
