"""Trials of two workers through Ray Train and Lightning, over gloo: what they record, and what a death costs."""

import shutil
import sys
from contextlib import closing

import pytest

from keel_lab.result import FailureKind
from keel_lab.schedule.interrupts import Interrupts
from keel_lab.schedule.local_executor import LocalExecutor
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.proposer import ListProposer
from keel_lab.schedule.ray_executor import RayExecutor
from keel_lab.schedule.runner import SweepRun
from keel_lab.settings import Budget, GridSchedule, ModelSettings, Resources, TrainSettings
from keel_lab.store import lease
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from keel_lab.track.tracker import NullTracker
from keel_lab.trial import DataRef, Trial
from tests.grouped_trainer import KILLED, RAISES
from tests.toy_sweep import MEMORY, toy_sweep
from tests.toy_trainer import starts
from trainers.data import corpus

STEPS = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with a corpus, as a sweep leaves it before its trials run."""
    folder = tmp_path_factory.mktemp("groups")
    (folder / "a.txt").write_text("".join(f"{n} bottles of beer on the wall.\n" for n in range(600)))
    section = {"text": "*.txt", "tokenizer": "bytes"}
    facts = corpus.facts(section, folder)
    corpus.prepare(section, folder, facts, folder / "store" / "data" / facts.fingerprint)
    return Root.open(folder / "store")


def trial_of(root, seed=0, workers=2, strategy="ddp"):
    return Trial(
        trainer="tests.grouped_trainer",
        architecture="hybridnorm",
        options={},
        blocks=2,
        model=ModelSettings(width=16, heads=2, kv_heads=1, ffn_width=32, context=16),
        data=DataRef(fingerprint=root.list("data")[0], tokenizer="bytes", vocab=256),
        train=TrainSettings(batch_size=8),
        schedule=GridSchedule(lr=1e-3, steps=STEPS, warmup_steps=6, validation_sequences=8),
        init_seed=seed,
        resources=Resources(workers=workers, strategy=strategy, memory=MEMORY),
    )


@pytest.fixture(scope="module")
def ran(root, tmp_path_factory):
    """Two trials on two workers each, one of which misbehaves. Gives the summary, the side folder and the slots."""
    side = tmp_path_factory.mktemp("side")
    trials = [trial_of(root, KILLED, strategy="fsdp"), trial_of(root, RAISES)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEEL_TOY_SIDE", str(side))
        with closing(RayExecutor(trials[0].resources)) as executor:
            slots = executor.slots
            summary = run(toy_sweep(*trials, name="groups"), root, executor, Budget())
    return summary, side, slots


def run(sweep, root, executor, budget):
    display, proposer = PlainLines(sys.stderr), ListProposer(sweep.trials)
    with lease.hold(root, sweep.name) as held:
        return SweepRun(sweep, root, executor, NullTracker(), proposer, display, budget, Interrupts()).run(held)


@pytest.fixture(scope="module")
def alone(root, tmp_path_factory):
    """The curves that one process records of the first two."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copytree(root.local("data"), folder / "store" / "data")
    own = Root.open(folder / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEEL_TOY_SIDE", str(folder))
        trials = [trial_of(root, seed, workers=1) for seed in (KILLED, RAISES)]
        run(toy_sweep(*trials, name="alone"), own, LocalExecutor(), Budget())
    return Trials(own)


def test_two_workers_record_the_losses_of_one_whatever_is_killed(root, ran, alone):
    trial_id = trial_of(root, KILLED, strategy="fsdp").id
    assert trial_id == trial_of(root, KILLED, workers=1).id  # how it is run is no part of the question
    result = Trials(root).result(trial_id)
    assert (result.execution["workers"], result.execution["strategy"]) == (2, "fsdp")
    together, one = Trials(root).curve(trial_id).steps, alone.curve(trial_id).steps
    assert [step.step for step in together] == list(range(1, STEPS + 1))
    assert [step.loss for step in together] == pytest.approx([step.loss for step in one], abs=1e-5)
    assert result.metrics["val_loss"] == pytest.approx(alone.result(trial_id).metrics["val_loss"], abs=1e-5)


def test_so_they_do_with_the_whole_model_each(root, ran, alone, tmp_path):
    """The one that failed had stored its first 30 steps."""
    trial_id = trial_of(root, RAISES).id
    together, one = Trials(root).checkpoint(trial_id, tmp_path).curve.steps, alone.curve(trial_id).steps
    assert len(together) == 30
    assert [step.loss for step in together] == pytest.approx([step.loss for step in one[:30]], abs=1e-5)


def test_a_killed_worker_restarts_the_trial_from_its_checkpoint(root, ran):
    _, side, _ = ran
    killed = trial_of(root, KILLED)
    assert starts(side, killed.id) == [0, 30]
    (attempt,) = Trials(root).attempts(killed.id)
    assert (attempt.kind, attempt.message) == (
        FailureKind.CRASH,
        "a worker process died (killed, or crashed in native code)",
    )


def test_a_workers_own_words_are_what_is_told_of_its_failure(root, ran):
    summary, side, _ = ran
    (attempt,) = Trials(root).attempts(trial_of(root, RAISES).id)
    assert attempt.message.startswith("UsageError: rank 1 has a headache (grouped_trainer.py:")
    assert attempt.final
    assert starts(side, trial_of(root, RAISES).id) == [0]
    assert (summary.completed + summary.diverged, summary.failed) == (1, 1)


def test_a_slot_is_as_many_workers_as_a_trial_has(ran):
    import os

    assert ran[2] == max(1, os.cpu_count() // 2)


def test_one_process_refuses_a_trial_of_several(root):
    (problem,) = LocalExecutor().preflight([trial_of(root)])
    assert problem.startswith("resources.workers: found 2, but --executor local trains in one process")
