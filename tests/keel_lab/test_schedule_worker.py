"""One attempt at a trial: curve, verdict, checkpoints, resume, news, log and failures, by the toy trainer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.schedule import news as news_module
from keel_lab.schedule import session as session_module
from keel_lab.schedule import worker
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.session import Session
from keel_lab.store.root import Root, StorageError
from keel_lab.store.trials import Trials
from keel_lab.trial import DataRef
from tests.toy_sweep import THRESHOLDS, outcome, refusal, toy_task, toy_trial
from tests.toy_trainer import H1, starts


class StopAfter(LocalMailbox):
    """Asks to stop once the news say that a step was reached."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step

    def post(self, news: Progress) -> bool:
        self.stop_requested = news.step >= self._step
        return super().post(news)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_TOY_SIDE", str(tmp_path / "side"))
    return Root.open(tmp_path / "store")


@pytest.fixture
def every_step_is_news(monkeypatch):
    monkeypatch.setattr(news_module, "BATCH_EVERY", 0.0)


def run(root: Root, trial, mailbox=None) -> TrialResult:
    result = worker.attempt(toy_task(trial, root), mailbox or LocalMailbox())
    assert isinstance(result, TrialResult), result
    return result


def undisturbed(tmp_path: Path, trial):
    reference = Root.open(tmp_path / "reference")
    run(reference, trial)
    return outcome(reference, trial)


def test_a_healthy_run_is_stored_whole(root):
    trial = toy_trial()
    result = run(root, trial)
    assert result.outcome is Outcome.COMPLETED
    assert result.steps == 200
    assert Trials(root).result(trial.id).to_json() == result.to_json()
    curve = Trials(root).curve(trial.id)
    assert [step.step for step in curve] == list(range(1, 201))
    assert all(math.isfinite(seconds) and seconds > 0 for seconds in curve.seconds)
    assert result.data == {"unigram_entropy": H1, "chance": pytest.approx(math.log(256))}
    assert result.execution["device"] == "toy"
    assert result.execution["seconds_per_step"] > 0
    assert Trials(root).checkpoint(trial.id, root.local("x")).step == 200


def test_a_metric_that_is_not_finite_is_named_and_left_out(root):
    result = run(root, toy_trial())
    assert list(result.metrics) == ["memory"]
    assert result.execution["nonfinite_metrics"] == ["nothing"]


def test_a_collapsed_run_is_stopped_early_and_is_a_result(root):
    result = run(root, toy_trial(collapse_lr=0.01))
    assert result.outcome is Outcome.DIVERGED
    assert result.steps < 200
    assert result.verdict.onset_step is not None


@pytest.mark.parametrize("step", [1, 37, 120])
@pytest.mark.parametrize("options", [{}, {"collapse_lr": 0.01}])
def test_a_stopped_run_keeps_a_checkpoint_and_goes_on_to_the_same_bytes(
    root, tmp_path, every_step_is_news, step, options
):
    trial = toy_trial(**options)
    stopped = run(root, trial, StopAfter(step))
    assert stopped.outcome is Outcome.STOPPED
    assert stopped.steps == step
    assert Trials(root).result(trial.id) is None
    assert Trials(root).checkpoint(trial.id, root.local("x")).step == step
    run(root, trial)
    assert starts(tmp_path / "side", trial.id) == [0, step]
    assert outcome(root, trial) == undisturbed(tmp_path, trial)


def test_a_run_killed_between_its_last_checkpoint_and_its_result_ends_with_the_same_bytes(root, tmp_path, monkeypatch):
    trial = toy_trial(steps=90)  # the toy checkpoints at 75 and at the end

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trials, "commit", killed)
        with pytest.raises(Killed):
            worker.attempt(toy_task(trial, root), LocalMailbox())
    assert Trials(root).checkpoint(trial.id, root.local("x")).step == 75
    run(root, trial)
    assert outcome(root, trial) == undisturbed(tmp_path, trial)


def test_a_settled_trial_is_not_run_again(root, tmp_path):
    trial = toy_trial()
    first = run(root, trial)
    assert run(root, trial).to_json() == first.to_json()
    assert starts(tmp_path / "side", trial.id) == [0]


def test_a_confirmed_divergence_is_judged_again_without_training(root, tmp_path):
    trial = toy_trial(collapse_lr=0.01)
    run(root, trial)
    sooner = replace(toy_task(trial, root), thresholds=THRESHOLDS.model_copy(update={"confirm_samples": 10}))
    again = worker.attempt(sooner, LocalMailbox())
    assert isinstance(again, TrialResult)
    assert again.outcome is Outcome.DIVERGED
    assert again.thresholds["confirm_samples"] == 10
    assert starts(tmp_path / "side", trial.id) == [0]


def test_a_divergence_not_confirmed_under_the_thresholds_asked_for_trains_on_from_the_end(root, tmp_path):
    trial = toy_trial(collapse_lr=0.01)
    first = run(root, trial)
    later = replace(toy_task(trial, root), thresholds=THRESHOLDS.model_copy(update={"confirm_samples": 40}))
    again = worker.attempt(later, LocalMailbox())
    assert isinstance(again, TrialResult)
    assert again.steps > first.steps
    assert starts(tmp_path / "side", trial.id) == [0, first.steps]
    stored = Trials(root).curve(trial.id)
    assert [step.step for step in stored] == list(range(1, again.steps + 1))


def test_a_resumed_curve_that_is_finished_under_new_thresholds_takes_no_step(root, tmp_path, every_step_is_news):
    trial = toy_trial(collapse_lr=0.01)
    late = replace(toy_task(trial, root), thresholds=THRESHOLDS.model_copy(update={"confirm_samples": 60}))
    assert worker.attempt(late, StopAfter(185)).steps == 185
    result = run(root, trial)
    assert result.to_json()["verdict"] == undisturbed(tmp_path, trial)[1]["verdict"]
    assert outcome(root, trial)[0] == undisturbed(tmp_path, trial)[0]


def test_a_queued_task_asked_to_stop_does_not_begin(root, tmp_path):
    mailbox = LocalMailbox()
    mailbox.stop_requested = True
    trial = toy_trial()
    result = run(root, trial, mailbox)
    assert (result.outcome, result.steps) == (Outcome.STOPPED, 0)
    assert starts(tmp_path / "side", trial.id) == []


@pytest.mark.parametrize(
    ("architecture", "kind", "message"),
    [
        ("toy_crash", FailureKind.CRASH, "ZeroDivisionError: the toy fell off the table"),
        ("toy_oom", FailureKind.OOM, "MemoryError: no room for the toy"),
        ("toy_exit", FailureKind.CRASH, "SystemExit: 3"),
        ("toy_leaves", FailureKind.CRASH, "RuntimeError: the trainer returned after step 40, before the run was over"),
    ],
)
def test_what_a_trainer_raises_is_a_failure_with_its_traceback_in_the_log(root, architecture, kind, message):
    trial = toy_trial(architecture)
    failure = worker.attempt(toy_task(trial, root), LocalMailbox())
    assert isinstance(failure, Failure)
    said, _, place = failure.message.partition(" (toy_trainer.py:")
    assert (failure.kind, said) == (kind, message)
    assert bool(place) == (architecture != "toy_leaves")  # where the trainer raised it
    assert failure.node
    log = Trials(root).log(trial.id)
    assert "Traceback" in log
    assert message.split(": ")[1] in log


def test_cuda_out_of_memory_is_told_by_its_words():
    assert worker._kind(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")) is FailureKind.OOM


def test_the_log_gathers_attempts_logging_and_warnings(root):
    trial = toy_trial("toy_crash_once")
    assert isinstance(worker.attempt(toy_task(trial, root), LocalMailbox()), Failure)
    assert isinstance(worker.attempt(toy_task(trial, root, attempt=2), LocalMailbox()), TrialResult)
    log = Trials(root).log(trial.id)
    assert log.index("--- attempt 1 at") < log.index("ZeroDivisionError") < log.index("--- attempt 2 at")
    assert "INFO toy: training from step 25" in log
    assert "UserWarning: toys are no models" in log


def test_storage_that_fails_for_a_while_costs_no_result(root, monkeypatch, tmp_path):
    calls = {"put_checkpoint": 0, "commit": 0}
    monkeypatch.setattr(worker, "STORE_AGAIN_AFTER", (0.0, 0.0))

    def failing(name: str, times: int):
        real = getattr(Trials, name)

        def call(self, *args):
            calls[name] += 1
            if calls[name] <= times:
                raise StorageError("the disk is full")
            return real(self, *args)

        monkeypatch.setattr(Trials, name, call)

    failing("put_checkpoint", 3)
    failing("commit", 2)
    trial = toy_trial()
    run(root, trial)
    assert calls["commit"] == 3
    assert "the disk is full" in Trials(root).log(trial.id)
    monkeypatch.undo()
    assert outcome(root, trial) == undisturbed(tmp_path, trial)


def test_news_are_thin_finite_and_reach_the_last_step(root, every_step_is_news):
    mailbox = LocalMailbox()
    trial = toy_trial(steps=1000)
    run(root, trial, mailbox)
    news = mailbox.drain()
    assert news[0].state == "starting"
    assert news[0].info["pid"]
    assert news[-1].step == 1000
    points = [point for item in news for point in item.points]
    assert 200 <= len(points) <= 500
    assert len({step for step, _, _ in points}) == len(points)
    for _, milliseconds, metrics in points:
        assert milliseconds > 1.6e12
        assert set(metrics) == {"loss", "paired_loss", "lr", "log10_lr", "grad_norm"}
        assert all(math.isfinite(value) for value in metrics.values())


def test_news_that_cannot_be_taken_come_with_the_next_batch(root, every_step_is_news):
    class Slow(LocalMailbox):
        calls = 0

        def post(self, news: Progress) -> bool:
            self.calls += 1
            return self.calls % 2 == 0 and super().post(news)

    mailbox, whole = Slow(), LocalMailbox()
    run(root, toy_trial(), mailbox)
    run(root, toy_trial(seed=1), whole)
    steps = [[step for item in box.drain() for step, _, _ in item.points] for box in (mailbox, whole)]
    assert steps[0] == steps[1]


def test_the_last_news_go_out_though_those_before_are_unanswered(root):
    class Unanswered(LocalMailbox):
        def post(self, news):
            return not self.news[1:] and super().post(news)

    mailbox = Unanswered()
    run(root, toy_trial(), mailbox)
    assert mailbox.drain()[-1].step == 200


def test_steps_must_come_one_by_one(root, tmp_path):
    session = Session(toy_task(toy_trial(), root), root, LocalMailbox(), tmp_path)
    from keel_lab.curve import Step

    session.step(Step(1, 3.0, 1e-4))
    with pytest.raises(ValueError, match="reported step 3, but step 2 is next"):
        session.step(Step(3, 3.0, 1e-4))
    with pytest.raises(TypeError, match=r"reported loss '3\.0' and lr 0\.0001 at step 2: numbers are needed"):
        session.step(Step(2, "3.0", 1e-4))
    with pytest.raises(RuntimeError, match="before the first step"):
        session.facts(unigram_entropy=1.0)


def test_a_checkpoint_is_due_by_time_and_at_the_end(root, tmp_path, monkeypatch):
    from keel_lab.curve import Step

    session = Session(toy_task(toy_trial(steps=2), root), root, LocalMailbox(), tmp_path)
    session.step(Step(1, 3.0, 1e-4))
    assert not session.checkpoint_due
    with pytest.raises(FileNotFoundError, match=r"missing\.ckpt"):
        session.checkpoint(tmp_path / "missing.ckpt")
    monkeypatch.setattr(session_module, "CHECKPOINT_EVERY", 0.0)
    (tmp_path / "a.ckpt").write_text("a")
    session.checkpoint(tmp_path / "a.ckpt")
    assert session.checkpoint_due


def test_preflight_says_what_is_wrong(root):
    assert worker.preflight(toy_trial()) is None
    assert worker.preflight(toy_trial("toy_impossible")) == refusal("toy_impossible")
    missing = toy_trial().model_copy(update={"trainer": "no_such_trainer"})
    assert "No module named 'no_such_trainer'" in worker.preflight(missing)


def test_data_are_used_in_place_or_fetched_once(root, tmp_path, monkeypatch):
    import pyarrow.fs as pafs

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trial = toy_trial().model_copy(update={"data": DataRef(fingerprint="f" * 64, tokenizer="bytes", vocab=256)})
    stored = f"data/{'f' * 64}"
    root.write(f"{stored}/train.bin", b"tokens")
    folder = Session(toy_task(trial, root), root, LocalMailbox(), tmp_path / "w").data_folder()
    assert folder == root.local(stored)
    remote = Root.on(pafs.LocalFileSystem(), root.uri, "remote")
    for _ in range(2):
        fetched = Session(toy_task(trial, root), remote, LocalMailbox(), tmp_path / "w").data_folder()
        assert fetched != folder
        assert (fetched / "train.bin").read_bytes() == b"tokens"
    with pytest.raises(RuntimeError, match="names no data"):
        Session(toy_task(toy_trial(), root), root, LocalMailbox(), tmp_path / "w").data_folder()


@pytest.mark.parametrize("torn", ["result.json", "curve.parquet"])
def test_what_a_power_cut_left_empty_of_a_brief_trial_runs_again_to_the_same_bytes(root, tmp_path, torn):
    trial = toy_trial(steps=20).model_copy(update={"trainer": "benchmarks.null_trainer"})
    Trials(root).put_trial(trial)
    run(root, trial)
    for name in (torn, "trial.json"):
        (root.local(f"trials/{trial.id}") / name).write_bytes(b"")
    assert Trials(root).result(trial.id) is None
    Trials(root).put_trial(trial)
    run(root, trial)
    assert Trials(root).trial(trial.id) == trial
    assert outcome(root, trial) == undisturbed(tmp_path, trial)


def test_only_what_is_brief_and_has_no_last_checkpoint_is_not_synced(root, monkeypatch):
    """Else a power cut could leave the checkpoint after the last step without the result that was stored before it."""
    synced = {}
    real = Trials.commit

    def commit(self, result, curve, is_synced=True):
        synced[result.trial_id] = is_synced
        real(self, result, curve, is_synced)

    monkeypatch.setattr(Trials, "commit", commit)
    null = toy_trial(steps=20).model_copy(update={"trainer": "benchmarks.null_trainer"})
    for trial in (null, toy_trial()):
        run(root, trial)
    assert synced == {null.id: False, toy_trial().id: True}
    root.delete(f"trials/{null.id}/result.json")
    monkeypatch.setattr(session_module, "BRIEF", 0.0)
    run(root, null)
    assert synced[null.id] is True
