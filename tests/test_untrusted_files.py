"""Nothing from a sweep file, storage or checkpoint is evaluated or unpickled, and no path in one leaves the root."""

from __future__ import annotations

import ast
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.errors import UsageError
from keel_lab.result import Failure
from keel_lab.schedule import worker
from keel_lab.schedule.mailbox import LocalMailbox
from keel_lab.schedule.session import Session
from keel_lab.schedule.settled import settled_results
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials
from keel_lab.trial import DataRef
from tests.command_line import call
from tests.toy_sweep import THRESHOLDS, toy_sweep, toy_task, toy_trial

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("keel_lab", "trainers", "analysis", "benchmarks")
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "read_pickle", "literal_eval"}
IMPORTERS = {  # what may import a module by a name it was given: one of ours, or what a user's sweep file names
    "keel_lab/cli.py",
    "keel_lab/own_trainer.py",
    "keel_lab/schedule/worker.py",
    "trainers/architectures/__init__.py",
}


def sources() -> Iterator[tuple[str, ast.AST]]:
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            yield str(path.relative_to(REPOSITORY)), ast.parse(path.read_text())


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def written_here(word: ast.expr) -> bool:
    """Whether a name stands in the source itself, as text or as a constant."""
    return isinstance(word, ast.Constant) or (isinstance(word, ast.Name) and word.id.isupper())


def faults(name: str, tree: ast.AST) -> Iterator[str]:
    """What a source does that a hostile file could make use of."""
    for node in ast.walk(tree):
        place = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"{place}: imports {m}" for m in modules if m.split(".")[0] in FORBIDDEN_MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = name_of(node)
        words = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        dotted = ast.unparse(node.func)
        if called in FORBIDDEN_CALLS and not dotted.startswith(("re.", "torch.")):
            yield f"{place}: calls {dotted}"
        if dotted == "torch.load" and words.get("weights_only") != "True":
            yield f"{place}: torch.load without weights_only=True"
        if called == "fit" and "ckpt_path" in words and words.get("weights_only") != "True":
            yield f"{place}: {dotted} of a checkpoint without weights_only=True"
        if words.get("allow_pickle", "False") != "False" or words.get("shell", "False") != "False":
            yield f"{place}: {dotted} with allow_pickle or shell"
        if called == "import_module" and name not in IMPORTERS and not written_here(node.args[0]):
            yield f"{place}: imports a module by name"


def test_no_source_evaluates_or_unpickles_anything():
    found = [fault for name, tree in sources() for fault in faults(name, tree)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from yaml import load",
        "eval(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "trainer.fit(module, ckpt_path=path)",
        "numpy.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
        "importlib.import_module(stored['name'])",
    ],
)
def test_the_scan_sees_what_it_looks_for(line):
    assert len(list(faults("keel_lab/some.py", ast.parse(line)))) == 1


# --- storage that somebody else has written ---


@pytest.fixture
def root(tmp_path):
    return Root.open(tmp_path / "store")


def committed(root, trial):
    assert not isinstance(worker.attempt(toy_task(trial, root), LocalMailbox()), Failure)
    return f"trials/{trial.id}/result.json"


def change(root, path, edit):
    document = json.loads(root.read(path))
    edit(document)
    root.write(path, json.dumps(document).encode())


@pytest.mark.parametrize(
    "name", ["../../../secret", "/etc/passwd", "..", "", "a//b", "C:x", "checkpoints/../../x", "\\x", 3, None, ["x"]]
)
def test_a_result_that_names_another_file_is_damaged_and_never_followed(root, tmp_path, caplog, name):
    trial = toy_trial()
    path = committed(root, trial)
    (tmp_path / "secret").write_text("not of this store")

    def point_elsewhere(document):
        document["files"]["curve"]["name"] = name

    change(root, path, point_elsewhere)
    trials = Trials(root)
    assert trials.result(trial.id) is None
    assert trials.results([trial.id]) == {}
    assert f"{path} is damaged" in caplog.text
    assert settled_results(trials, toy_sweep(trial).trials, THRESHOLDS) == {}
    assert not isinstance(worker.attempt(toy_task(trial, root), LocalMailbox()), Failure)  # it is run again


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", 3])
def test_a_checkpoint_that_names_another_file_is_damaged_and_never_followed(root, tmp_path, caplog, name):
    trial, file = toy_trial(), tmp_path / "a.ckpt"
    file.write_text('{"step": 1, "memory": 0.0, "broken": false}')
    curve = Curve()
    curve.append(Step(1, 3.0, 1e-4), 0.1)
    Trials(root).put_checkpoint(trial.id, 1, file, curve)
    change(root, f"trials/{trial.id}/checkpoints/last.json", lambda found: found["checkpoint"].update(name=name))
    assert Trials(root).checkpoint(trial.id, tmp_path) is None
    assert "last.json is damaged" in caplog.text


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"schema": 1, "a": ' + b'{"a":' * 50_000, b"9" * 10_000, b"\xff"]
)
def test_a_file_made_to_break_its_reader_is_damaged(root, caplog, content):
    trial = toy_trial()
    path = committed(root, trial)
    root.write(path, content)
    assert Trials(root).result(trial.id) is None
    assert f"{path} is damaged" in caplog.text


@pytest.mark.parametrize("stray", [".DS_Store", "lost+found", "a b", "-rf", "é"])
def test_what_is_no_trial_beside_the_trials_is_left_alone(root, capsys, stray):
    trial = toy_trial()
    Trials(root).put_trial(trial)
    committed(root, trial)
    place = root.local(f"trials/{stray}")
    place.mkdir()
    assert Trials(root).step_costs([trial]).keys() == {trial.id}
    assert call(capsys, "gc", "--storage", root.uri, "--dry-run").code == 0
    assert place.exists()


def test_a_stored_trial_whose_data_lie_elsewhere_is_refused(root, tmp_path):
    data = DataRef(fingerprint="../../secret", tokenizer="bytes", vocab=256)
    trial = toy_trial("toy_reads").model_copy(update={"data": data})
    with pytest.raises(UsageError, match="relative path inside the storage root"):
        Session(toy_task(trial, root), root, LocalMailbox(), tmp_path).data_folder()


# --- a checkpoint that is a pickle of somebody's choice ---


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self._mark),)


def test_a_hostile_checkpoint_fails_its_trial_and_is_not_executed(tmp_path):
    import torch

    from tests.trainers.job_cases import MemoryReport, trial
    from trainers import job
    from trainers.data import corpus

    (tmp_path / "a.txt").write_text("some text to train on, over and over again.\n" * 300)
    section = {"text": "*.txt", "tokenizer": "bytes"}
    corpus.prepare(section, tmp_path, corpus.facts(section, tmp_path), tmp_path / "shard")
    report = MemoryReport(tmp_path / "shard", tmp_path, 6)
    report.stop = 2
    job.run(trial(tmp_path / "shard"), tmp_path, report)
    checkpoint = report.resume.checkpoint
    mark = tmp_path / "executed"
    plain = lambda: checkpoint.write_bytes(pickle.dumps(Payload(mark), protocol=2))  # noqa: E731
    for hostile in (plain, lambda: torch.save({"state_dict": Payload(mark)}, checkpoint)):
        hostile()
        report.stop = None
        with pytest.raises(pickle.UnpicklingError):
            job.run(trial(tmp_path / "shard"), tmp_path, report)
        assert not mark.exists()
    torch.load(checkpoint, weights_only=False)  # the payload would have worked
    assert mark.exists()


def test_text_of_a_sweep_file_builds_no_objects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bombs = {
        "object": 'name: !!python/object/apply:os.mkdir ["executed"]',
        "tag": "name: !!python/name:os.system x",
        "laughs": "\n".join(
            ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
        ),
        "deep": "a: " + "[" * 5000 + "]" * 5000,
    }
    for name, text in bombs.items():
        Path("sweep.yaml").write_text(f"schema: 1\n{text}\n")
        ended = call(capsys, "validate", "sweep.yaml")
        assert ended.code == 2, (name, ended)
        assert "did not foresee" not in ended.err, name
        assert not Path("executed").exists()
