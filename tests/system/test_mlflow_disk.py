"""MLflow on a disk that fills up, or that nobody may write to: one sentence with the remedy, and training goes on."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from keel_lab.schedule.executor import Progress
from keel_lab.track import writer
from keel_lab.track.mlflow_tracker import MlflowTracker
from tests.command_line import TOYS, call
from tests.mlflow_server import Cursor, collapse, ramp, sweep_of

FULL = "no space is left on its disk: free some"


@pytest.fixture(autouse=True)
def _there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toys.yaml").write_text(TOYS.replace("[toy_crash, toy]", "[toy]"))
    for name in ("KEEL_LAB_STORAGE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(writer, "BACK_OFF", (0.2,))


def fill(folder: Path) -> Path:
    """Takes all space there is."""
    ballast = folder / "ballast"
    with ballast.open("wb") as stream:
        while os.write(stream.fileno(), bytes(4096)):
            if not os.statvfs(folder).f_bavail:
                return ballast
    raise AssertionError("unreachable")


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def loss_of(path: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT run_uuid, step FROM metrics WHERE key = 'train/loss' ORDER BY run_uuid, step")
        return list(found)


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path, tmpfs, caplog):
    """The tracker waits, says so once, and delivers all of it in order when there is space again."""
    path = tmpfs.place / "mlflow.db"
    trials = [ramp("keel", blocks, steps=60) for blocks in (2, 4)]
    where = (str(tmp_path / "store"), f"sqlite:///{path}", Cursor())
    opening = MlflowTracker(sweep_of("filled", trials), *where, patience=300)
    assert opening.close() == ()
    ballast = fill(tmpfs.place)
    tracker = MlflowTracker(sweep_of("filled", trials), *where, patience=300)
    for planned in trials:
        result, verdict, curve = collapse(planned, 40)
        tracker.started(planned)
        points = [(one.step, 1000 * one.step, {"loss": one.loss}) for one in curve.steps[:20]]
        tracker.live([Progress(planned.trial.id, 20, 1.0, "healthy", points)])
        tracker.record(planned, result, verdict, curve)
    wait_until(lambda: tracker._outbox.away is not None)
    assert tracker._outbox.away.startswith(FULL)
    ballast.unlink()
    wait_until(lambda: len(tracker._outbox.delivered) == len(trials))
    assert tracker.close() == ()
    said = [record.getMessage() for record in caplog.records if record.name == writer.__name__]
    (told,) = [text for text in said if "training goes on" in text]
    assert told.startswith(f"MLflow at sqlite:///{path} takes nothing now: {FULL}")
    assert said[-1] == f"MLflow at sqlite:///{path} takes what it is told again"
    steps = loss_of(path)
    assert len(steps) == len(set(steps)) == 2 * 58
    assert {step for _, step in steps} == set(range(1, 59))


def test_a_disk_that_stays_full_is_one_sentence_and_the_sweep_is_complete(tmp_path, tmpfs, capsys):
    path = tmpfs.place / "mlflow.db"
    words = ("toys.yaml", "--executor", "local", "--tracking", f"sqlite:///{path}")
    assert call(capsys, "run", *words, "name=before").code == 0
    fill(tmpfs.place)
    ended = call(capsys, "run", *words)
    assert ended.code == 0
    assert "toy" in ended.out  # the report
    (sentence,) = [line for line in ended.err.splitlines() if "not delivered" in line]
    assert f"1 run and the summary were not delivered to sqlite:///{path}: {FULL}" in sentence
    assert sentence.endswith("; `keel-lab sync toys` delivers them")
    (tmpfs.place / "ballast").unlink()
    assert call(capsys, "sync", "toys", "--tracking", f"sqlite:///{path}").code == 0


def test_a_database_that_may_not_be_written_is_refused_before_anything_runs(tmp_path, tmpfs, capsys):
    """A read-only mount: root ignores modes."""
    folder = tmpfs.place / "there"
    folder.mkdir()
    words = ("run", "toys.yaml", "--executor", "local", "--tracking")
    assert call(capsys, *words, f"sqlite:///{folder}/mlflow.db", "name=before").code == 0
    tmpfs.read_only(folder)
    for name in ("mlflow.db", "new.db"):
        refused = call(capsys, *words, f"sqlite:///{folder}/{name}")
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(
            f"error: MLflow at sqlite:///{folder}/{name}: {folder} is no folder in which files"
        )
        assert refused.err.endswith("; --tracking off does without it\n")
        assert refused.err.count("\n") == 1
    assert not (tmp_path / "keel-lab-store" / "sweeps" / "toys").exists()


def test_a_database_of_somebody_else_is_refused_to_a_user_without_permission(tmp_path):
    """As the user nobody, for whom modes count."""
    from keel_lab.track.usable import refuse_unusable

    place = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    path = place / "mlflow.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE somebodys (name)")
    place.chmod(0o777)
    path.chmod(0o644)
    refuse_unusable(f"sqlite:///{path}", "toys")
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.setgid(65534)
            os.setuid(65534)
            refuse_unusable(f"sqlite:///{path}", "toys")
        except Exception as error:  # noqa: BLE001 - told by the exit code
            code = 3 if "it may not be written: allow it, or " in str(error) else 4
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    path.unlink()
    place.rmdir()
    assert os.waitstatus_to_exitcode(status) == 3
