"""The tracker on a real SQLite store, read back with MLflow's own client."""

import json
import math
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.errors import UsageError
from keel_lab.learning_rate import lr_at
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.track.mlflow_tracker import MlflowTracker
from keel_lab.track.note import NOTE_LIMIT, experiment_note
from keel_lab.track.points import stride
from keel_lab.trial import Trial

STEPS = 40
START = 1_700_000_000.0
HEALTHY = Verdict(Status.HEALTHY, last_good_step=STEPS, last_good_lr=0.1, censored=True, learned=True)
DIVERGED = Verdict(
    Status.DIVERGED, Mode.COLLAPSE, 31, 30, 0.02, learned=True, evidence={"sigma": math.nan, "rule": "cusum"}
)

BEHIND = Verdict(Status.DIVERGED, Mode.DEGRADATION, 12, 11, 0.004, learned=True, detector="siblings-1")


class Cursor:
    """As the store keeps it: JSON text."""

    def __init__(self):
        self.text = "{}"

    def load(self):
        return json.loads(self.text)

    def save(self, state):
        self.text = json.dumps(state)


def trial(seed, steps=STEPS):
    ramp = RampSchedule(steps=steps)
    settings = {"model": ModelSettings(), "data": None, "train": TrainSettings(), "schedule": ramp}
    it = Trial(architecture="keel", options={"alpha": 32.0}, blocks=16, init_seed=seed, data_seed=seed, **settings)
    return PlannedTrial(it, Cell("keel", 16, (("alpha", "L"),)), {"alpha": "L", "seed": seed}, 12345)


def curve_of(planned, last=STEPS):
    curve = Curve()
    for step in range(1, last + 1):
        loss = math.inf if step == last - 1 else math.nan if step == last else 5.0 - step / 10
        curve.append(Step(step, loss, lr_at(planned.trial.schedule, step), 3.1, 1.0, tokens=step * 256), 0.01)
    return curve


def result_of(planned, outcome=Outcome.DIVERGED, verdict=DIVERGED, steps=STEPS):
    execution = {"torch": "2.13.0", "started_at": START, "finished_at": START + 10, "seconds_per_step": 0.01}
    data = {"unigram_entropy": 3.0, "chance": 5.5}
    return TrialResult(planned.trial.id, outcome, steps, verdict, {}, {"val_loss": math.inf}, data, execution)


def live_of(planned, steps):
    points = [
        (s, int((START + s) * 1000), {"loss": 5.0 - s / 10, "lr": lr_at(planned.trial.schedule, s)}) for s in steps
    ]
    return Progress(planned.trial.id, max(steps), 1.0, "healthy", points)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def client(root):
    opening = MlflowTracker(
        SimpleNamespace(name="opening", spec={}, trials=(), data=None), str(root), uri_of(root), Cursor()
    )
    assert opening.close() == ()
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri_of(root))


def uri_of(root):
    return f"sqlite:///{root}/mlflow.db"


class Rig:
    """A sweep of its own on the shared store, and what the store says of it."""

    def __init__(self, name, root, client):
        self.root, self.client, self.cursor = root, client, Cursor()
        self.trials = tuple(trial(seed) for seed in range(3))
        spec = {
            "schema": 1,
            "name": name,
            "question": "How far?",
            "grid": {"seed": [0, 1, 2]},
            "ramp": {"steps": STEPS},
        }
        self.sweep = SimpleNamespace(name=name, spec=spec, trials=self.trials, data=None)

    def open(self, uri=None):
        return MlflowTracker(self.sweep, str(self.root), uri or uri_of(self.root), self.cursor)

    def experiment(self):
        return self.client.get_experiment_by_name(self.sweep.name)

    def runs(self):
        found = self.client.search_runs([self.experiment().experiment_id])
        assert len({run.info.run_name for run in found}) == len(found)
        return {run.info.run_name: run for run in found}

    def history(self, run, key):
        return [(metric.step, metric.value) for metric in self.client.get_metric_history(run.info.run_id, key)]

    def assert_no_step_twice(self):
        for run in self.runs().values():
            for key in run.data.metrics:
                steps = Counter(step for step, _ in self.history(run, key))
                assert set(steps.values()) == {1}, (run.info.run_name, key, steps)

    def artifacts(self, run):
        return {item.path for item in self.client.list_artifacts(run.info.run_id)}


@pytest.fixture
def rig(request, root, client):
    return Rig(request.node.name, root, client)


def test_a_sweep_as_a_user_finds_it(rig, tmp_path):
    figure = tmp_path / "curves.svg"
    figure.write_text("<svg/>")
    one, two, three = rig.trials
    tracker = rig.open()
    for planned in rig.trials:
        tracker.started(planned)
    tracker.live([live_of(one, range(1, 21))])
    tracker.record(one, result_of(one), DIVERGED, curve_of(one))
    tracker.record(two, result_of(two, Outcome.COMPLETED, HEALTHY), HEALTHY, curve_of(two))
    tracker.failed(three, Failure(FailureKind.CRASH, "boom"))
    tracker.summary("# report", [figure], {"diverged": 1.0, "odd": math.nan})
    figure.unlink()
    assert tracker.close() == ()
    assert f"experiments/{rig.experiment().experiment_id}/runs?compareRunsMode=CHART" in tracker.where()

    note = rig.experiment().tags["mlflow.note.content"]
    assert note.startswith("**How far?**")
    assert "seed: [0, 1, 2]" in note
    assert rig.experiment().artifact_location == (rig.root / "mlartifacts").as_uri()
    runs = rig.runs()
    assert set(runs) == {one.name, two.name, three.name, "summary"}
    assert not any("mlflow.parentRunId" in run.data.tags for run in runs.values())
    assert {name: run.info.status for name, run in runs.items()} == {
        one.name: "FINISHED",
        two.name: "FINISHED",
        three.name: "FAILED",
        "summary": "FINISHED",
    }
    assert runs["summary"].data.tags["kind"] == "summary"
    assert rig.artifacts(runs["summary"]) == {"report.md", "sweep.yaml", "curves.svg"}
    assert runs["summary"].data.metrics == {"diverged": 1.0}

    run = runs[one.name]
    wanted = {
        "architecture": "keel",
        "blocks": "16",
        "sublayers": "32",
        "alpha": "L",
        "alpha_value": "32.0",
        "lr": "0.1",
    }
    wanted |= {"log10_lr": "-1.0", "seed": "0", "verdict": "diverged", "mode": "collapse", "max_lr": "0.02"}
    assert wanted.items() <= run.data.params.items()
    assert (wanted | {"trial_id": one.trial.id, "torch_version": "2.13.0"}).items() <= run.data.tags.items()
    assert runs[two.name].data.params["max_lr"] == "> 0.1 (censored)"
    assert "final/max_lr" not in runs[two.name].data.metrics
    assert run.data.metrics["final/max_lr"] == 0.02
    assert "final/val_loss" not in run.data.metrics
    assert run.info.end_time == round((START + 10) * 1000)
    assert runs[two.name].info.start_time <= round(time.time() * 1000)
    assert rig.artifacts(run) == {"curve.parquet", "evidence.json"}


def test_points_live_and_stored_make_one_finite_curve(rig):
    one, two, _ = rig.trials
    tracker = rig.open()
    tracker.started(one)
    tracker.live([live_of(one, range(1, 21))])
    tracker.live([live_of(one, range(15, 26))])  # resumed from a checkpoint
    tracker.record(one, result_of(one), DIVERGED, curve_of(one))
    tracker.record(two, result_of(two), DIVERGED, curve_of(two))
    assert tracker.close() == ()
    for planned in (one, two):
        run = rig.runs()[planned.name]
        expected = [(step, 5.0 - step / 10) for step in range(1, STEPS - 1)]  # the last two are Inf and NaN
        assert sorted(rig.history(run, "train/loss")) == expected
        assert [step for step, _ in rig.history(run, "train/lr")] == list(range(1, STEPS + 1))
        assert run.data.metrics["train/log10_lr"] == pytest.approx(-1.0)
        assert all(math.isfinite(value) for value in run.data.metrics.values())
    rig.assert_no_step_twice()


def test_live_points_come_while_the_trial_runs(rig):
    one = rig.trials[0]
    tracker = rig.open()
    tracker.started(one)
    tracker.live([live_of(one, range(1, 6))])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if rig.experiment() and (run := rig.runs().get(one.name)) and "train/loss" in run.data.metrics:
            break
        time.sleep(0.05)
    assert run.info.status == "RUNNING"
    assert sorted(rig.history(run, "train/loss")) == [(step, 5.0 - step / 10) for step in range(1, 6)]
    assert tracker.close() == ()
    assert rig.runs()[one.name].info.status == "KILLED"  # it did not come back


def test_the_run_of_a_killed_driver_is_adopted(rig):
    one = rig.trials[0]
    first = rig.open()
    first.started(one)
    first.live([live_of(one, range(1, 11))])
    assert first.close() == ()
    old = rig.runs()[one.name]
    assert len(rig.history(old, "train/loss")) == 10
    rig.client.update_run(old.info.run_id, status="RUNNING")
    second = rig.open()
    second.started(one)
    second.live([live_of(one, range(6, 16))])
    second.record(one, result_of(one), DIVERGED, curve_of(one))
    assert second.close() == ()
    run = rig.runs()[one.name]
    assert run.info.run_id == old.info.run_id
    assert run.info.status == "FINISHED"
    assert len(rig.history(run, "train/loss")) == STEPS - 2
    rig.assert_no_step_twice()


def everything(rig):
    return {
        name: (
            run.info.run_id,
            run.data.params,
            run.data.tags,
            {key: rig.history(run, key) for key in run.data.metrics},
        )
        for name, run in rig.runs().items()
    }


def test_delivering_again_changes_nothing(rig):
    seen = []
    for _ in range(2):
        tracker = rig.open()
        for planned in rig.trials:
            tracker.record(planned, result_of(planned), DIVERGED, curve_of(planned))
        assert tracker.close() == ()
        seen.append(everything(rig))
        rig.cursor.save({**rig.cursor.load(), "trials": {}})  # as if it had been killed before noting anything
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


def test_the_cursor_spares_what_was_delivered_and_storage_gives_the_rest(rig):
    done = {planned.trial.id: planned for planned in rig.trials}
    loaded = []

    def load(trial_id):
        loaded.append(trial_id)
        return result_of(done[trial_id]), DIVERGED, curve_of(done[trial_id])

    first = rig.open()
    first.record(rig.trials[0], result_of(rig.trials[0]), DIVERGED, curve_of(rig.trials[0]))
    assert first.close() == ()
    for expected in ([planned.trial.id for planned in rig.trials[1:]], []):
        loaded.clear()
        tracker = rig.open()
        tracker.deliver_missing(load, done)
        assert tracker.close() == ()
        assert loaded == expected
    assert len(rig.runs()) == 3
    rig.assert_no_step_twice()


@pytest.mark.parametrize("readable", [True, False])
def test_an_experiment_made_anew_is_filled_again(rig, readable):
    one = rig.trials[0]
    first = rig.open()
    first.record(one, result_of(one), DIVERGED, curve_of(one))
    assert first.close() == ()
    rig.client.delete_run(rig.runs()[one.name].info.run_id)
    state = rig.cursor.load()
    rig.cursor.save({**state, "target": state["target"] + "0"})  # the cursor speaks of another experiment of that name
    second = rig.open()
    if readable:
        second.deliver_missing(lambda _: (result_of(one), DIVERGED, curve_of(one)), [one.trial.id])
    second.record(one, result_of(one), DIVERGED, curve_of(one))
    second.close()
    third = rig.open()  # without a way to read storage back, at the latest this one has delivered it
    third.record(one, result_of(one), DIVERGED, curve_of(one))
    assert third.close() == ()
    assert set(rig.runs()) == {one.name}


def test_an_experiment_in_the_trash_is_taken_out_of_it_which_is_said(rig, caplog):
    one, two, _ = rig.trials
    for planned in (one, two):
        tracker = rig.open()
        tracker.record(planned, result_of(planned), DIVERGED, curve_of(planned))
        assert tracker.close() == ()
        if planned is one:
            rig.client.delete_experiment(rig.experiment().experiment_id)
            assert "restored" not in caplog.text
    assert set(rig.runs()) == {one.name, two.name}
    said = f"MLflow: experiment {rig.sweep.name} had been deleted there; it was restored, with the runs that it had"
    assert [record.getMessage() for record in caplog.records if "restored" in record.getMessage()] == [said]


NOTE = "mlflow.note.content"
VIEW = "mlflow.sharedViewState.keel-lab-curves"


def delivered(rig, planned):
    tracker = rig.open()
    tracker.record(planned, result_of(planned), DIVERGED, curve_of(planned))
    assert tracker.close() == ()


def test_what_people_changed_of_the_experiment_stays_and_the_rest_is_kept_up(rig):
    one, two, three = rig.trials
    delivered(rig, one)
    ours = dict(rig.experiment().tags)
    key = rig.experiment().experiment_id
    rig.client.set_experiment_tag(key, VIEW, "a view of mine")
    rig.sweep.spec["question"] = "How far, and why?"
    delivered(rig, two)
    tags = rig.experiment().tags
    assert tags[VIEW] == "a view of mine"
    assert tags[NOTE].startswith("**How far, and why?**")  # nobody had changed it
    rig.client.set_experiment_tag(key, NOTE, "my words")
    rig.client.delete_experiment_tag(key, VIEW)
    delivered(rig, three)
    tags = rig.experiment().tags
    assert tags[NOTE] == "my words"
    assert VIEW not in tags
    means = "mlflow.sharedViewState.keel-lab-means"
    assert tags[means] == ours[means]


def test_a_driver_that_is_killed_while_it_describes_takes_nothing_for_a_persons_words(rig, monkeypatch):
    from mlflow.tracking import MlflowClient

    one, two, _ = rig.trials
    delivered(rig, one)
    real = MlflowClient.set_experiment_tag

    def dies(self, key, tag, value):
        if tag == NOTE:
            raise ConnectionResetError(104, "Connection reset by peer")
        return real(self, key, tag, value)

    rig.sweep.spec["question"] = "Why?"
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_experiment_tag", dies)
        assert rig.open().close() == ()
    assert rig.experiment().tags[NOTE].startswith("**How far?**")
    delivered(rig, two)
    assert rig.experiment().tags[NOTE].startswith("**Why?**")


def test_what_somebody_wrote_about_a_run_stays(rig):
    one, two, _ = rig.trials
    for planned in (one, two):
        delivered(rig, planned)
    assert rig.runs()[two.name].data.tags[NOTE].startswith(f"{two.name}: diverged")
    rig.client.set_tag(rig.runs()[one.name].info.run_id, NOTE, "look at step 12 again")
    for verdict in (DIVERGED, HEALTHY):  # the latter replaces the run
        rig.cursor.save({**rig.cursor.load(), "trials": {}})
        tracker = rig.open()
        for planned in (one, two):
            tracker.record(planned, result_of(planned), verdict, curve_of(planned))
        assert tracker.close() == ()
        assert rig.runs()[one.name].data.tags[NOTE] == "look at step 12 again"
        assert rig.runs()[two.name].data.tags[NOTE].startswith(f"{two.name}: {verdict.status}")


def test_another_judgement_replaces_the_run(rig):
    one = rig.trials[0]
    tracker = rig.open()
    tracker.record(one, result_of(one), DIVERGED, curve_of(one))
    assert tracker.close() == ()
    old = rig.runs()[one.name]
    rig.client.set_tag(old.info.run_id, "mine", "a note")
    again = rig.open()
    again.record(one, result_of(one), HEALTHY, curve_of(one))
    assert again.close() == ()
    run = rig.runs()[one.name]
    assert run.info.run_id != old.info.run_id
    assert rig.client.get_run(old.info.run_id).info.lifecycle_stage == "deleted"
    assert (run.data.params["verdict"], run.data.tags["verdict"]) == ("healthy", "healthy")
    assert (run.data.params["mode"], run.data.params["max_lr"]) == ("none", "> 0.1 (censored)")
    assert "final/max_lr" not in run.data.metrics
    assert run.data.tags["mine"] == "a note"
    assert len(rig.history(run, "train/loss")) == STEPS - 2


def test_a_trial_told_worse_beside_its_siblings_keeps_its_run_and_says_so_in_its_tags(rig):
    one = rig.trials[0]
    tracker = rig.open()
    tracker.record(one, result_of(one, Outcome.COMPLETED, HEALTHY), HEALTHY, lambda: curve_of(one))
    assert tracker.close() == ()
    old = rig.runs()[one.name]
    assert "verdict_alone" not in old.data.tags
    again = rig.open()
    again.record(one, result_of(one, Outcome.COMPLETED, HEALTHY), HEALTHY, lambda: curve_of(one), BEHIND)
    assert again.close() == ()
    run = rig.runs()[one.name]
    assert run.info.run_id == old.info.run_id
    assert (run.data.params["verdict"], run.data.params["mode"]) == ("healthy", "none")
    told = {key: run.data.tags[key] for key in ("outcome", "verdict", "mode", "onset_step", "verdict_alone")}
    assert told == {
        "outcome": "completed",
        "verdict": "diverged",
        "mode": "degradation",
        "onset_step": "12",
        "verdict_alone": "healthy",
    }
    assert run.data.tags["max_lr_with_degradation"] == "0.004"
    assert run.data.tags["mlflow.note.content"].endswith("Beside its siblings: diverged (degradation) from step 12.")
    rig.assert_no_step_twice()


def test_a_final_metric_that_changed_replaces_the_run_too(rig):
    one = rig.trials[0]
    for onset in (31, 30):
        verdict = replace(DIVERGED, onset_step=onset)
        tracker = rig.open()
        tracker.record(one, result_of(one), verdict, curve_of(one))
        assert tracker.close() == ()
    run = rig.runs()[one.name]
    assert run.data.tags["onset_step"] == "30"
    assert rig.history(run, "final/onset_step") == [(0, 30.0)]


def test_a_failed_trial_that_is_retried_goes_on_in_its_run(rig):
    one = rig.trials[0]
    tracker = rig.open()
    tracker.failed(one, Failure(FailureKind.OOM, "killed"))
    assert tracker.close() == ()
    assert rig.runs()[one.name].data.tags["failure"] == "oom"
    again = rig.open()
    again.started(one)
    again.record(one, result_of(one), DIVERGED, curve_of(one))
    assert again.close() == ()
    assert rig.runs()[one.name].info.status == "FINISHED"
    assert rig.runs()[one.name].data.tags["outcome"] == "diverged"


def test_a_stopped_trial_is_killed_and_goes_on_later(rig):
    one = rig.trials[0]
    tracker = rig.open()
    tracker.record(one, result_of(one, Outcome.STOPPED, Verdict(Status.UNDECIDED), 10), HEALTHY, curve_of(one, 10))
    assert tracker.close() == ()
    run = rig.runs()[one.name]
    assert run.info.status == "KILLED"
    assert "verdict" not in run.data.params
    assert rig.cursor.load()["trials"] == {}
    again = rig.open()
    again.record(one, result_of(one), DIVERGED, curve_of(one))
    assert again.close() == ()
    assert rig.runs()[one.name].info.run_id == run.info.run_id
    assert rig.runs()[one.name].info.status == "FINISHED"
    rig.assert_no_step_twice()


def test_two_storage_roots_share_a_server_without_touching_each_other(rig):
    one = rig.trials[0]
    for _ in range(2):
        rig.cursor = Cursor()
        tracker = rig.open()
        tracker.record(one, result_of(one), DIVERGED, curve_of(one))
        assert tracker.close() == ()
    runs = rig.client.search_runs([rig.experiment().experiment_id])
    assert len(runs) == 2
    assert len({run.data.tags["keel_lab.origin"] for run in runs}) == 2


def test_a_thousand_steps_are_thinned(rig):
    planned = trial(0, steps=1000)
    tracker = rig.open()
    curve = curve_of(planned, 1000)
    tracker.record(planned, result_of(planned, steps=1000), DIVERGED, curve)
    assert tracker.close() == ()
    run = rig.runs()[planned.name]
    steps = [step for step, _ in rig.history(run, "train/lr")]
    assert steps[-1] == 1000
    assert 31 in steps  # the onset
    assert len(steps) <= 1000 / stride(planned.trial) + 2


def test_one_bad_record_does_not_hold_up_the_others(rig):
    one, two, _ = rig.trials
    rig.sweep.trials = (one, two)
    tracker = rig.open()
    broken = result_of(one)
    broken.metrics["x" * 400] = 1.0  # longer than MLflow allows
    tracker.record(one, broken, DIVERGED, curve_of(one))
    tracker.record(two, result_of(two), DIVERGED, curve_of(two))
    (sentence,) = tracker.close()
    assert sentence.startswith(f"1 run was not delivered to {uri_of(rig.root)}: ")
    assert sentence.endswith(f"; `keel-lab sync {rig.sweep.name}` delivers it")
    assert rig.runs()[two.name].info.status == "FINISHED"
    assert set(rig.cursor.load()["trials"]) == {two.trial.id}


def test_a_cursor_that_cannot_be_saved_is_said(rig):
    one = rig.trials[0]
    saves = []

    def full_after_the_first(state):
        saves.append(state)
        if len(saves) > 1:
            raise OSError(28, "No space left on device")

    rig.cursor.save = full_after_the_first
    tracker = rig.open()
    tracker.record(one, result_of(one), DIVERGED, curve_of(one))
    (sentence,) = tracker.close()
    assert "could not be noted in storage: no space is left on its disk: free some" in sentence
    assert rig.runs()[one.name].info.status == "FINISHED"


def test_storage_that_cannot_be_written_at_first_is_said(rig):
    def full(state):
        raise OSError(28, "No space left on device")

    rig.cursor.save = full
    tracker = rig.open()
    tracker.record(rig.trials[0], result_of(rig.trials[0]), DIVERGED, curve_of(rig.trials[0]))
    (sentence,) = tracker.close()
    assert sentence.startswith("1 run was not delivered")
    assert "no space left on device" in sentence
    assert rig.experiment() is None


def test_a_database_that_cannot_be_opened_is_one_sentence(rig, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    tracker = rig.open(f"sqlite:///{blocked}/mlflow.db")
    tracker.record(rig.trials[0], result_of(rig.trials[0]), DIVERGED, curve_of(rig.trials[0]))
    (sentence,) = tracker.close()
    assert sentence.startswith(f"1 run was not delivered to sqlite:///{blocked}/mlflow.db: ")


def test_a_wrong_uri_is_refused_before_anything_runs(rig):
    with pytest.raises(UsageError, match="did you mean http"):
        rig.open("htp://localhost:5000")


def test_a_long_sweep_file_is_cut_in_the_description():
    note = experiment_note("Why?", "\n".join(f"key{i}: {i}" for i in range(2000)), {"there": "#/x"}, "/store")
    assert len(note) <= NOTE_LIMIT
    assert note.endswith("# ... the rest: sweep.yaml\n```\n")
