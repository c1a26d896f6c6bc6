"""One suite for every kind of storage root: a folder, and pyarrow file systems as object stores are reached."""

import dataclasses
import itertools
import logging
import math
import os
import uuid
from typing import ClassVar

import pyarrow.fs as pafs
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from keel_lab.architecture import CorpusFacts
from keel_lab.curve import Curve, Step
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.errors import KeelLabError, NewerSchemaError, UsageError
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.store import index
from keel_lab.store.folder import Folder
from keel_lab.store.heartbeat import Pulse
from keel_lab.store.lease import hold, holder
from keel_lab.store.remote import Remote
from keel_lab.store.root import Root
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from keel_lab.trial import Trial

FAST = Pulse(interval=0.02, expiry=30.0, settle=0.0)


class TimedMemory(MemoryFileSystem):
    """fsspec's memory under the name that pyarrow reads an object's time by; S3 and GCS tell it."""

    protocol = "timed-memory"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]

    def info(self, path, **kwargs):
        found = super().info(path, **kwargs)
        return found | {"mtime": found["created"]} if "created" in found else found

    def find(self, path, *args, **kwargs):
        return {name: self.info(name) for name in super().find(path, *args, **(kwargs | {"detail": False}))}


def memory(filesystem):
    return Remote(pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), f"/{uuid.uuid4().hex}/base")


def backend_of(kind, folder):
    if kind == "folder":
        return Folder(folder)
    if kind == "memory":
        return memory(TimedMemory())
    folder.mkdir()
    return Remote(pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem()), "base")


@pytest.fixture(params=["folder", "memory", "subtree"])
def backend(request, tmp_path):
    return backend_of(request.param, tmp_path / "store")


@pytest.fixture
def root(backend):
    return Root(backend, "the-store")


class Killed(BaseException):
    pass


class Dying:
    """A backend whose process dies before its n-th change."""

    def __init__(self, backend, changes):
        self._backend, self._left = backend, changes

    def __getattr__(self, name):
        action = getattr(self._backend, name)
        if name not in ("write", "write_file", "delete"):
            return action
        if not self._left:
            raise Killed
        self._left -= 1
        return action


def until_it_lives(backend, change):
    """Runs `change` on a dying root, dying later each time, and yields after every death and after the survival."""
    for deaths in itertools.count():
        try:
            change(Root(Dying(backend, deaths), "the-store"))
        except Killed:
            yield False
        else:
            yield True
            return


def trial_of(seed=0, architecture="keel", width=32, **options):
    return Trial(
        architecture=architecture,
        options=options,
        blocks=2,
        model=ModelSettings(width=width),
        data=None,
        train=TrainSettings(),
        schedule=RampSchedule(steps=10),
        init_seed=seed,
    )


def curve_of(steps=3, loss=2.0):
    curve = Curve()
    for i in range(1, steps + 1):
        curve.append(Step(i, math.nan if i == 2 else loss, 1e-5 * i, tokens=i), 0.25)
    return curve


def result_of(trial, steps=3, **changes):
    result = TrialResult(
        trial.id, Outcome.COMPLETED, steps, Verdict(Status.HEALTHY, last_good_step=steps), Thresholds().model_dump()
    )
    return dataclasses.replace(result, **changes)


def done(root, trial, steps=3, **changes):
    trials = Trials(root)
    trials.put_trial(trial)
    trials.commit(result_of(trial, steps, **changes), curve_of(steps))
    return trials


def text(curve):
    return [*map(repr, curve), repr(curve.seconds)]


# --- root ---


def test_opening_and_reading_create_nothing(root, tmp_path):
    assert root.list() == []
    assert not root.exists("a/b")
    assert root.stats(["a/b"]) == {}
    root.delete("a/b")
    with pytest.raises(FileNotFoundError):
        root.read("a/b")
    with pytest.raises(FileNotFoundError):
        root.fetch("a/b", tmp_path)
    assert not (tmp_path / "store" / "a").exists()


def test_what_is_written_is_read_listed_and_deleted(root):
    root.write("a/b.json", b"old")
    root.write("a/b.json", b"\x00new")
    root.write("a/c/d.gz", b"not compressed")
    assert root.read("a/b.json") == b"\x00new"
    assert root.read("a/c/d.gz") == b"not compressed"
    assert root.list("a") == ["b.json", "c"]
    assert root.list() == ["a"]
    assert root.exists("a/c")
    assert root.exists("a/b.json")
    root.delete("a/b.json")
    assert root.list("a") == ["c"]


def test_files_go_in_and_come_out_whole(root, tmp_path):
    source = tmp_path / "source.ckpt"
    source.write_bytes(os.urandom(100_000))
    root.write_file("deep/er/x.ckpt", source)
    out = root.fetch("deep/er/x.ckpt", tmp_path / "out")
    assert out.read_bytes() == source.read_bytes()
    local = root.local("deep/er/x.ckpt")
    assert out == (local or tmp_path / "out" / "x.ckpt")
    assert root.list("deep/er") == ["x.ckpt"]


@pytest.mark.parametrize("count", [3, 100], ids=["few", "many"])
def test_stats_of_those_that_exist(root, count):
    for i in range(count):
        root.write(f"trials/{i}/result.json", b"x" * i)
    stats = root.stats([f"trials/{i}/result.json" for i in range(count + 5)])
    assert {path: stat.size for path, stat in stats.items()} == {f"trials/{i}/result.json": i for i in range(count)}


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "..", "a/../../b", "a//b", "./a", "a/", "C:/x", "a\\..\\b", "a\0b"]
)
def test_a_path_that_could_leave_the_root_is_refused(root, path):
    for action in (root.read, root.exists, root.delete, root.local, lambda p: root.write(p, b"")):
        with pytest.raises(UsageError, match="relative path inside"):
            action(path)


# --- trials ---


def test_a_committed_trial_is_read_back(root):
    trial = trial_of(alpha=4.0)
    trials = Trials(root)
    trials.put_trial(trial)
    assert trials.result(trial.id) is None
    assert trials.results([trial.id]) == {}
    result = result_of(trial, metrics={"val_loss": 2.5})
    trials.commit(result, curve_of())
    assert trials.trial(trial.id) == trial
    assert trials.result(trial.id) == result
    assert trials.results([trial.id, "0" * 16]) == {trial.id: result}
    assert text(trials.curve(trial.id)) == text(curve_of())
    assert root.list(f"trials/{trial.id}") == ["curve.parquet", "result.json", "timing.parquet", "trial.json"]


def test_an_existing_trial_file_is_left_alone(root):
    trial = trial_of()
    Trials(root).put_trial(trial)
    before = root.read(f"trials/{trial.id}/trial.json")
    Trials(root).put_trial(trial.model_copy(update={"resources": trial.resources.model_copy(update={"cpus": 9})}))
    assert root.read(f"trials/{trial.id}/trial.json") == before


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.FAILED])
def test_only_results_are_committed(root, outcome):
    trial = trial_of()
    with pytest.raises(ValueError, match="only a result is committed"):
        Trials(root).commit(result_of(trial, outcome=outcome), curve_of())
    with pytest.raises(ValueError, match="3 steps, but a curve of 2"):
        Trials(root).commit(result_of(trial), curve_of(2))
    assert root.list() == []


def test_a_commit_that_dies_anywhere_is_not_done_until_it_is(backend, root):
    trial = trial_of()
    for lived in until_it_lives(backend, lambda dying: done(dying, trial)):
        assert (Trials(root).result(trial.id) is not None) is lived
        assert (trial.id in Trials(root).results([trial.id])) is lived
    assert text(Trials(root).curve(trial.id)) == text(curve_of())


def test_a_second_commit_that_dies_anywhere_leaves_the_old_pair_or_the_new(backend, root):
    trial = trial_of()
    done(root, trial, 3)
    for lived in until_it_lives(backend, lambda dying: done(dying, trial, 5)):
        steps = 5 if lived else 3
        assert Trials(root).results([trial.id])[trial.id].steps == steps
        assert text(Trials(root).curve(trial.id)) == text(curve_of(steps))
    done(root, trial, 7)
    assert text(Trials(root).curve(trial.id)) == text(curve_of(7))


def test_curves_of_trials_without_result(root):
    with pytest.raises(KeelLabError, match=r"trial 0{16} has no result in the-store"):
        Trials(root).curve("0" * 16)


@pytest.mark.parametrize("content", [b"", b'{"schema": 1, "tri', b"[]", b'{"schema": "1"}', b'{"schema": 1}'])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_damaged_result_counts_as_not_done_and_is_named(root, caplog, content, warm):
    trial = trial_of()
    trials = done(root, trial)
    if warm:
        assert len(trials.results([trial.id])) == 1
    root.write(f"trials/{trial.id}/result.json", content)
    for read in (lambda: trials.result(trial.id) is None, lambda: trials.results([trial.id]) == {}):
        caplog.clear()
        assert read()
        assert f"the-store/trials/{trial.id}/result.json is damaged" in caplog.text
    with pytest.raises(KeelLabError, match=rf"{trial.id}/result.json is damaged.*keel-lab resume"):
        trials.curve(trial.id)
    trials.commit(result_of(trial), curve_of())
    assert text(trials.curve(trial.id)) == text(curve_of())


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_damaged_curve_counts_as_not_done_and_is_named(root, caplog, damage, warm):
    trial = trial_of()
    trials = done(root, trial)
    if warm:
        assert len(trials.results([trial.id])) == 1
    path = f"trials/{trial.id}/curve.parquet"
    content = root.read(path)
    root.delete(path)
    if damage != "gone":
        root.write(path, content[:-5] if damage == "cut" else b"\0" + content[1:])
    assert trials.result(trial.id) is None
    assert trials.results([trial.id]) == {}
    assert caplog.text.count(path) >= 2
    with pytest.raises(KeelLabError, match=r"curve.parquet is (damaged|missing).*keel-lab resume"):
        trials.curve(trial.id)


def test_a_damaged_timing_costs_only_the_seconds(root, caplog):
    trial = trial_of()
    trials = done(root, trial)
    root.write(f"trials/{trial.id}/timing.parquet", b"torn")
    assert trials.result(trial.id) is not None
    assert all(math.isnan(seconds) for seconds in trials.curve(trial.id).seconds)
    assert "timing.parquet is damaged" in caplog.text


def test_a_result_under_another_trials_name_is_damaged(root, caplog):
    one, other = trial_of(0), trial_of(1)
    trials = done(root, one)
    root.write(f"trials/{other.id}/result.json", root.read(f"trials/{one.id}/result.json"))
    assert trials.result(other.id) is None
    assert f"it is the result of trial {one.id}" in caplog.text


@pytest.mark.parametrize("file", ["result.json", "trial.json", "attempts/1.json", "checkpoints/last.json"])
def test_a_newer_file_is_refused_with_its_name_and_a_remedy(root, tmp_path, file):
    trial = trial_of()
    trials = done(root, trial)
    path = f"trials/{trial.id}/{file}"
    root.write(path, b'{"schema": 99}')
    reads = {
        "result.json": [trials.result, lambda i: trials.results([i]), trials.curve],
        "trial.json": [trials.trial],
        "attempts/1.json": [trials.attempts],
        "checkpoints/last.json": [lambda i: trials.checkpoint(i, tmp_path)],
    }
    for read in reads[file]:
        with pytest.raises(NewerSchemaError, match=rf"the-store/{path} has schema 99.*upgrade keel-lab"):
            read(trial.id)


def test_attempts_are_numbered_and_dated(root):
    trials = Trials(root)
    assert trials.attempts("abc") == []
    for number in range(1, 12):
        assert trials.add_attempt("abc", Failure(FailureKind.CRASH, f"crash {number}", "node")) == number
    attempts = trials.attempts("abc")
    assert [failure.message for failure in attempts] == [f"crash {number}" for number in range(1, 12)]
    assert all(failure.at > 1.7e9 for failure in attempts)


def test_a_damaged_attempt_is_an_error_not_a_free_retry(root):
    trials = Trials(root)
    trials.add_attempt("abc", Failure(FailureKind.CRASH, "crash"))
    root.write("trials/abc/attempts/1.json", b"{")
    with pytest.raises(KeelLabError, match=r"trials/abc/attempts/1.json is damaged.*delete it"):
        trials.attempts("abc")


def test_logs(root):
    trials = Trials(root)
    assert trials.log("abc") is None
    trials.put_log("abc", "step 1\nÜ\n")
    assert trials.log("abc") == "step 1\nÜ\n"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "-x", "a b", "x" * 129, "é"])
def test_names_that_cannot_be_stored(root, name):
    with pytest.raises(UsageError, match="trial name"):
        Trials(root).result(name)
    with pytest.raises(UsageError, match="sweep name"):
        Sweeps(root).load(name)
    with pytest.raises(UsageError, match="sweep name"):
        holder(root, name)


# --- checkpoints ---


@pytest.fixture
def checkpoint(tmp_path):
    def write(content):
        file = tmp_path / "trainer.ckpt"
        file.write_bytes(content)
        return file

    return write


def test_the_last_checkpoint_comes_back_with_its_curve(root, tmp_path, checkpoint):
    trials = Trials(root)
    assert trials.checkpoint("abc", tmp_path / "into") is None
    for step in (3, 10):
        trials.put_checkpoint("abc", step, checkpoint(b"weights %d" % step), curve_of(step))
    found = trials.checkpoint("abc", tmp_path / "into")
    assert found.step == 10
    assert found.file.read_bytes() == b"weights 10"
    assert text(found.curve) == text(curve_of(10))
    kept = root.list("trials/abc/checkpoints")
    assert len(kept) == 4
    assert all(name == "last.json" or name.startswith("10-") for name in kept)


@pytest.mark.parametrize("step", [3, 5], ids=["same step", "next step"])
def test_a_checkpoint_that_dies_anywhere_leaves_the_old_one_or_the_new(backend, root, tmp_path, checkpoint, step):
    Trials(root).put_checkpoint("abc", 3, checkpoint(b"old"), curve_of(3))
    seen = []

    def change(dying):
        Trials(dying).put_checkpoint("abc", step, checkpoint(b"new"), curve_of(step, 1.5))

    for _ in until_it_lives(backend, change):
        found = Trials(root).checkpoint("abc", tmp_path / "into")
        content = found.file.read_bytes()
        assert (content, text(found.curve)) in (
            (b"old", text(curve_of(3))),
            (b"new", text(curve_of(step, 1.5))),
        )
        seen.append(content)
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {b"old", b"new"}
    assert len(root.list("trials/abc/checkpoints")) == 4


@pytest.mark.parametrize("suffix", [".ckpt", ".parquet", "last.json"])
@pytest.mark.parametrize("content", [None, b"torn", b'{"schema": 1, "step": 3, "checkpoint": {}, "files": {}}'])
def test_a_torn_checkpoint_is_never_taken(root, caplog, tmp_path, checkpoint, suffix, content):
    trials = Trials(root)
    trials.put_checkpoint("abc", 3, checkpoint(b"weights"), curve_of(3))
    name = min((name for name in root.list("trials/abc/checkpoints") if name.endswith(suffix)), key=len)
    root.delete(f"trials/abc/checkpoints/{name}")
    if content is not None:
        root.write(f"trials/abc/checkpoints/{name}", content)
    assert trials.checkpoint("abc", tmp_path / "into") is None
    assert (name in caplog.text) is not (content is None and name == "last.json")


# --- index ---


class Counting:
    """A backend that counts the reads of each kind of file."""

    def __init__(self, backend):
        self._backend, self.reads = backend, []

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def read(self, path):
        self.reads.append(path.split("/")[-1])
        return self._backend.read(path)


def test_known_results_are_read_from_the_index_alone(backend, root):
    ids = [trial_of(seed).id for seed in range(5)]
    for seed in range(5):
        done(root, trial_of(seed), metrics={"m": seed})
    first = Trials(root).results(ids)
    counting = Counting(backend)
    trials = Trials(Root(counting, "the-store"))
    assert trials.results(ids) == first == {id_: Trials(root).result(id_) for id_ in ids}
    assert list(trials.results(reversed(ids))) == ids[::-1]
    assert counting.reads == ["results.parquet"]


def test_where_files_have_no_time_results_are_read_themselves():
    trial, counting = trial_of(), Counting(memory(MemoryFileSystem()))
    trials = done(Root(counting, "the-store"), trial)
    for _ in range(2):
        counting.reads.clear()
        assert len(trials.results([trial.id])) == 1
        assert counting.reads.count("result.json") == 1


def test_only_what_changed_is_read_again(backend, root):
    trials = [trial_of(seed) for seed in range(4)]
    for trial in trials[:3]:
        done(root, trial)
    ids = [trial.id for trial in trials]
    counting = Counting(backend)
    reader = Trials(Root(counting, "the-store"))
    assert len(reader.results(ids)) == 3
    counting.reads.clear()
    done(root, trials[0], 8)
    done(root, trials[3])
    root.delete(f"trials/{ids[1]}/result.json")
    assert {id_: result.steps for id_, result in reader.results(ids).items()} == {ids[0]: 8, ids[2]: 3, ids[3]: 3}
    assert counting.reads.count("result.json") == 2


def test_the_index_can_be_deleted_damaged_and_rebuilt(root, caplog):
    trials = [trial_of(seed) for seed in range(3)]
    for trial in trials:
        done(root, trial)
    ids = [trial.id for trial in trials]
    expected = Trials(root).results(ids)
    for damage in (None, b"", b"PAR1 torn", root.read(index.FILE)[:-20]):
        caplog.clear()
        root.delete(index.FILE)
        if damage is not None:
            root.write(index.FILE, damage)
        assert Trials(root).results(ids) == expected
        assert (f"the-store/{index.FILE} is damaged" in caplog.text) is (damage is not None)
        assert root.exists(index.FILE)
    assert index.rebuild(root) == 3
    assert Trials(root).results(ids) == expected


def test_rows_of_drivers_that_overwrite_each_other_are_only_read_again(root):
    one, other = trial_of(0), trial_of(1)
    done(root, one)
    done(root, other)
    first, second = Trials(root), Trials(root)
    assert len(first.results([one.id])) == 1
    assert len(second.results([other.id])) == 1
    assert set(index.Index(root).rows()) == {one.id, other.id}


def test_a_storage_that_cannot_take_the_index_is_still_read(backend, caplog):
    trial = trial_of()
    done(Root(backend, "the-store"), trial)

    class Full(Counting):
        def write(self, path, content, *, synced=True):
            raise OSError(28, "No space left on device")

    assert len(Trials(Root(Full(backend), "the-store")).results([trial.id])) == 1
    assert f"cannot write {index.FILE}: No space left on device" in caplog.text


def test_step_costs_are_of_the_last_measured_trial_of_the_shape(root):
    for seed, (seconds, at) in enumerate([(0.5, 10.0), (0.25, 30.0), (0.75, 20.0), (math.nan, 40.0), (None, 50.0)]):
        execution = {"finished_at": at} | ({} if seconds is None else {"seconds_per_step": seconds})
        done(root, trial_of(seed, alpha=1.0 + seed), execution=execution)
    done(root, trial_of(0, "pre_ln"), execution={"seconds_per_step": 2.0})
    new, wide, other = trial_of(9, alpha=7.0), trial_of(9, width=64), trial_of(9, "pre_ln")
    assert Trials(root).step_costs([new, wide, other]) == {new.id: 0.25, other.id: 2.0}


def test_step_costs_of_an_empty_store(root):
    assert Trials(root).step_costs([trial_of()]) == {}


# --- sweeps ---


def sweep_of(name="table1", seeds=2, peak=0.1, **changes):
    trials = [trial_of(seed, alpha=4.0) for seed in range(seeds)]
    planned = tuple(PlannedTrial(t, Cell("keel", 2, (("alpha", "L"),)), {"seed": t.init_seed}, 1234) for t in trials)
    spec = {"schema": 1, "name": name, "ramp": {"peak_lr": peak, "steps": 10}, "grid": {"seed": list(range(seeds))}}
    facts = CorpusFacts("f" * 64, 1000, 256, "bytes", "stdlib")
    sweep = StoredSweep(name, spec, Thresholds(), facts, planned, collapsed=3, created_at=1.5)
    return dataclasses.replace(sweep, **changes)


def test_a_sweep_is_stored_once_however_often_it_is_saved(root):
    sweeps = Sweeps(root)
    assert sweeps.names() == []
    saved = sweeps.save(sweep_of())
    assert saved == sweep_of() == sweeps.load("table1")
    assert sweeps.save(sweep_of(created_at=99.0)) == saved
    assert root.list("sweeps/table1") == ["sweep.json", "trials.jsonl"]
    sweeps.save(sweep_of("a.b_c-d"))
    assert sweeps.names() == ["a.b_c-d", "table1"]


def test_another_content_is_a_revision_and_the_older_is_kept(root):
    sweeps = Sweeps(root)
    sweeps.save(sweep_of())
    old = [root.read(f"sweeps/table1/{name}") for name in ("sweep.json", "trials.jsonl")]
    assert sweeps.save(sweep_of(peak=0.2, created_at=9.0)).revision == 2
    assert sweeps.save(sweep_of(seeds=3, peak=0.2, created_at=9.0)).revision == 3
    assert sweeps.load("table1") == sweep_of(seeds=3, peak=0.2, revision=3, created_at=9.0)
    assert [root.read(f"sweeps/table1/revisions/1/{name}") for name in ("sweep.json", "trials.jsonl")] == old
    assert root.list("sweeps/table1/revisions") == ["1", "2"]


def test_a_save_that_dies_anywhere_leaves_the_old_sweep_or_the_new(backend, root):
    for lived in until_it_lives(backend, lambda dying: Sweeps(dying).save(sweep_of())):
        assert Sweeps(root).names() == (["table1"] if lived else [])
    new = sweep_of(seeds=3)
    for lived in until_it_lives(backend, lambda dying: Sweeps(dying).save(new)):
        assert Sweeps(root).load("table1") == (dataclasses.replace(new, revision=2) if lived else sweep_of())


def test_a_sweep_that_is_not_there_names_the_nearest(root):
    sweeps = Sweeps(root)
    with pytest.raises(UsageError, match="no sweep 'table1' in the-store: it holds none"):
        sweeps.load("table1")
    sweeps.save(sweep_of("table1"))
    with pytest.raises(UsageError, match=r"no sweep 'tabel1' in the-store; did you mean table1\?"):
        sweeps.load("tabel1")
    with pytest.raises(UsageError, match="there are table1"):
        sweeps.load("quick")


@pytest.mark.parametrize(
    ("file", "content"),
    [("sweep.json", b"{"), ("sweep.json", b'{"schema": 1}'), ("trials.jsonl", b""), ("trials.jsonl", None)],
)
def test_a_damaged_sweep_is_refused_and_not_replaced(root, file, content):
    sweeps = Sweeps(root)
    sweeps.save(sweep_of())
    root.delete(f"sweeps/table1/{file}")
    if content is not None:
        root.write(f"sweeps/table1/{file}", content)
    for action in (lambda: sweeps.load("table1"), lambda: sweeps.save(sweep_of(peak=0.2))):
        with pytest.raises(KeelLabError, match=r"sweeps/table1/sweep.json is damaged.*restore"):
            action()


def test_newer_sweep_files_are_refused(root):
    sweeps = Sweeps(root)
    sweeps.save(sweep_of())
    sweeps.put_judgements("table1", Thresholds(), {"a": Verdict(Status.HEALTHY)})
    judged = f"judgements/{root.list('sweeps/table1/judgements')[0]}"
    reads = {
        "sweep.json": lambda: sweeps.load("table1"),
        "delivered.json": lambda: sweeps.delivered("table1"),
        judged: lambda: sweeps.judgements("table1", Thresholds()),
    }
    for file, read in reads.items():
        root.write(f"sweeps/table1/{file}", b'{"schema": 99}')
        with pytest.raises(NewerSchemaError, match=f"sweeps/table1/{file} has schema 99"):
            read()


def test_judgements_are_kept_apart_by_detector_and_thresholds(root, caplog):
    sweeps, strict = Sweeps(root), Thresholds(alarm_sigma=10.0)
    healthy, older = Verdict(Status.HEALTHY, evidence={"sigma": 0.5}), Verdict(Status.UNDECIDED, detector="streaming-0")
    sweeps.put_judgements("t", Thresholds(), {"a": healthy, "b": older})
    sweeps.put_judgements("t", Thresholds(), {"c": healthy})
    assert sweeps.judgements("t", Thresholds()) == {"a": healthy, "c": healthy}
    assert sweeps.judgements("t", Thresholds(), "streaming-0") == {"b": older}
    assert sweeps.judgements("t", strict) == {}
    name = next(name for name in root.list("sweeps/t/judgements") if name.startswith(DETECTOR))
    for content in (b"torn", b'{"schema": 1, "verdicts": {"a": {"status": "fine"}}}'):
        root.write(f"sweeps/t/judgements/{name}", content)
        caplog.clear()
        assert sweeps.judgements("t", Thresholds()) == {}
        assert f"{name} is damaged" in caplog.text


def test_differences_name_keys_and_values():
    old = {"name": "t", "ramp": {"peak_lr": 0.1, "steps": 10}, "grid": {"seed": [0, 1]}, "flag": 1, "divergence": {}}
    new = {"name": "t", "ramp": {"peak_lr": 0.2, "steps": 10}, "grid": {"seed": [0]}, "flag": True, "extra": None}
    assert Sweeps.difference(old, new) == [
        "ramp.peak_lr: 0.1 -> 0.2",
        "grid.seed: [0, 1] -> [0]",
        "flag: 1 -> true",
        "divergence: {} -> (none)",
        "extra: (none) -> null",
    ]
    assert Sweeps.difference(old, old) == []


def test_report_files_cannot_replace_what_the_sweep_is(root):
    sweeps = Sweeps(root)
    assert root.read(sweeps.put_file("t", "figures/a.svg", b"<svg/>")) == b"<svg/>"
    for relative in ("sweep.json", "revisions/1/sweep.json", "lease.lock"):
        with pytest.raises(UsageError, match="keel_lab itself uses"):
            sweeps.put_file("t", relative, b"")
    with pytest.raises(UsageError, match="relative path inside"):
        sweeps.put_file("t", "../u/sweep.json", b"")


def test_the_delivery_cursor(root, caplog):
    sweeps = Sweeps(root)
    assert sweeps.delivered("t") == {}
    sweeps.set_delivered("t", {"runs": {"a": "id"}})
    sweeps.set_delivered("t", {"runs": {"a": "id", "b": "id2"}})
    assert sweeps.delivered("t") == {"runs": {"a": "id", "b": "id2"}}
    root.write("sweeps/t/delivered.json", b"torn")
    assert sweeps.delivered("t") == {}
    assert "everything is delivered again" in caplog.text


# --- lease ---


def test_a_sweep_is_held_by_one_and_free_after(root, caplog):
    caplog.set_level(logging.WARNING)
    assert holder(root, "t") is None
    with hold(root, "t", FAST) as lease:
        lease.check()
        assert holder(root, "t")["pid"] == os.getpid()
        with pytest.raises(UsageError, match=rf"sweep t is being run by pid {os.getpid()} on host .* since 20\d\d-"):
            hold(root, "t", FAST).__enter__()
        with hold(root, "other", FAST):
            assert holder(root, "other") is not None
    assert holder(root, "t") is None
    with pytest.raises(RuntimeError, match="a crash"), hold(root, "t", FAST):
        raise RuntimeError("a crash")
    with hold(root, "t", FAST):
        assert holder(root, "t") is not None
    assert caplog.text == ""
