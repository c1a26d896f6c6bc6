"""A storage root on S3, as moto's server speaks it: a real client, real requests, on loopback."""

import hashlib
import math
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from keel_lab.curve import Curve, Step
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.errors import UsageError
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.store.heartbeat import Pulse
from keel_lab.store.lease import hold, holder
from keel_lab.store.root import Root, StorageError
from keel_lab.store.trials import Trials
from tests.object_store import KEYS, uri_of
from tests.toy_sweep import toy_trial

REPOSITORY = Path(__file__).parents[2]
BUCKET = "lab"


class Store:
    """The server, and how it is called."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.object_store", "127.0.0.1", "0", BUCKET],
            cwd=REPOSITORY, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline())

    def uri(self, path: str, bucket: str = BUCKET) -> str:
        return uri_of("127.0.0.1", self.port, bucket, path)

    def check_keys(self, after: int) -> None:
        """From so many requests on, only keys that it knows are good; none are."""
        where = f"http://127.0.0.1:{self.port}/moto-api/reset-auth"
        kind = {"Content-Type": "text/plain"}
        asked = urllib.request.Request(where, data=str(after).encode(), headers=kind, method="POST")
        urllib.request.urlopen(asked).close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module", autouse=True)
def _keys():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def store():
    made = Store()
    yield made
    made.close()


@pytest.fixture
def root(store, request):
    return Root.open(store.uri(request.node.name.replace("[", "-").strip("]")))


def curve_of(steps, loss=2.0):
    curve = Curve()
    for i in range(1, steps + 1):
        curve.append(Step(i, math.nan if i == 2 else loss, 1e-5 * i, tokens=i), 0.25)
    return curve


def result_of(trial, steps):
    verdict = Verdict(Status.HEALTHY, last_good_step=steps)
    return TrialResult(trial.id, Outcome.COMPLETED, steps, verdict, Thresholds().model_dump())


def test_files_are_written_read_listed_measured_and_deleted(root):
    assert (root.list(), root.exists("a"), root.stats(["a/b"])) == ([], False, {})
    with pytest.raises(FileNotFoundError):
        root.read("a/b")
    root.delete("a/b")
    for number in range(100):  # more than are asked for one by one
        root.write(f"a/{number}.json", b"x" * number)
    root.write("a/3.json", b"\x00new")
    root.write("a/c/d.gz", b"not compressed")
    assert root.read("a/3.json") == b"\x00new"
    assert root.exists("a/c")
    assert len(root.list("a")) == 101
    assert root.list() == ["a"]
    few = root.stats(["a/5.json", "a/none"])
    many = root.stats([f"a/{number}.json" for number in range(200)])
    assert list(few) == ["a/5.json"]
    assert few["a/5.json"] == many["a/5.json"]
    assert len(many) == 100
    root.delete("a/3.json")
    assert not root.exists("a/3.json")


def test_a_file_of_several_parts_comes_back_whole(root, tmp_path):
    source = tmp_path / "big.ckpt"
    source.write_bytes(os.urandom(25_000_000))
    root.write_file("x/big.ckpt", source)
    fetched = root.fetch("x/big.ckpt", tmp_path / "into")
    assert fetched.parent == tmp_path / "into"
    hashes = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (source, fetched)}
    assert len(hashes) == 1
    assert root.local("x/big.ckpt") is None


def test_trials_checkpoints_and_attempts(root, tmp_path):
    trial, trials = toy_trial(), Trials(root)
    trials.put_trial(trial)
    file = tmp_path / "own.ckpt"
    for step in (3, 10):
        file.write_bytes(b"weights %d" % step)
        trials.put_checkpoint(trial.id, step, file, curve_of(step))
    trials.keep_checkpoint(trial.id, 10, file, curve_of(10))
    found = trials.checkpoint(trial.id, tmp_path / "into")
    assert (found.step, found.file.read_bytes(), len(found.curve)) == (10, b"weights 10", 10)
    assert len(root.list(f"trials/{trial.id}/checkpoints")) == 4
    assert trials.checkpoint_before(trial.id, 12, tmp_path / "kept").step == 10
    for number in (1, 2):
        assert trials.add_attempt(trial.id, Failure(FailureKind.CRASH, f"crash {number}", "node")) == number
    assert trials.result(trial.id) is None
    for steps in (10, 12):  # it went on under other thresholds
        trials.commit(result_of(trial, steps), curve_of(steps))
        assert Trials(root).result(trial.id).steps == steps
        assert Trials(root).results([trial.id])[trial.id].steps == steps
        assert len(Trials(root).curve(trial.id)) == steps
    root.write(f"trials/{trial.id}/curve-2.parquet", b"torn")
    assert Trials(root).result(trial.id) is None


def test_a_writer_that_dies_leaves_the_old_file(root, store, tmp_path):
    """Nothing is renamed there: what counts is that an object appears when it is whole."""
    root.write("a/b", b"old")
    code = (
        "import os, sys\nfrom keel_lab.store.root import Root\n"
        f"root = Root.open({root.uri!r})\n"
        "sink = root._backend._sink('a/b')\n"
        "sink.write(b'n' * 12_000_000)\n"  # two parts have gone
        "os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env={**os.environ, **KEYS}).returncode == 9
    assert root.read("a/b") == b"old"
    assert root.list("a") == ["b"]


def test_one_driver_at_a_time(root, store):
    pulse = Pulse(interval=0.1, expiry=30.0, settle=0.3)
    with hold(root, "toys", pulse) as held:
        assert holder(root, "toys")["pid"] == os.getpid()
        with (
            pytest.raises(UsageError, match=f"sweep toys is being run by pid {os.getpid()}"),
            hold(root, "toys", pulse),
        ):
            raise AssertionError("two drivers")
        held.check()
    assert holder(root, "toys") is None


def test_of_two_that_come_at_once_one_is_refused(root):
    pulse = Pulse(interval=0.1, expiry=30.0, settle=1.5)
    got, done = [], threading.Event()

    def drive():
        try:
            with hold(root, "toys", pulse):
                got.append("held")
                done.wait(60)
        except UsageError as error:
            got.append(str(error))
            done.set()

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(got)[0] == "held"
    assert "is being run by pid" in sorted(got)[1]


def test_a_dead_drivers_lease_is_taken_over_when_it_has_expired(root):
    code = (
        "import os\nfrom keel_lab.store.lease import hold\nfrom keel_lab.store.heartbeat import Pulse\n"
        f"from keel_lab.store.root import Root\nroot = Root.open({root.uri!r})\n"
        "with hold(root, 'toys', Pulse(0.1, 2.0, 0.0)):\n    os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env={**os.environ, **KEYS})
    until = threading.Event()
    for _ in range(200):
        if holder(root, "toys") is None:
            break
        until.wait(0.1)
    with hold(root, "toys", Pulse(0.1, 2.0, 0.0)) as held:
        held.check()


def test_a_bucket_that_is_not_there(store):
    with pytest.raises(UsageError, match=r"there is no bucket attic; create it, or correct its name"):
        Root.open(store.uri("x", "attic"))


def test_an_endpoint_where_nobody_listens():
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        uri = uri_of("127.0.0.1", probe.getsockname()[1], BUCKET, "x")
        with pytest.raises(UsageError, match=r"nobody answers there: correct the endpoint \(`\?endpoint_override="):
            Root.open(uri)


def test_keys_that_are_not_accepted():
    store = Store()
    try:
        root = Root.open(store.uri("x"))
        store.check_keys(after=0)
        with pytest.raises(
            StorageError, match=r"cannot write a: .*does not accept the credentials: set AWS_ACCESS_KEY_ID"
        ):
            root.write("a", b"1")
        with pytest.raises(UsageError, match=r"cannot be opened: .*does not accept the credentials"):
            Root.open(store.uri("x"))
    finally:
        store.close()


def test_a_key_in_the_uri_is_not_shown(store):
    uri = store.uri("x").replace("s3://", "s3://me:secret@")
    assert "secret" not in str(Root.open(uri))
    with pytest.raises(UsageError) as error:
        Root.open(store.uri("x", "attic").replace("s3://", "s3://me:secret@"))
    assert "secret" not in str(error.value)
