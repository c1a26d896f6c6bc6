"""The lease of an object store: beats, expiry, and taking over."""

import json
import os
import threading
import time
import uuid

import pyarrow.fs as pafs
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from keel_lab.errors import UsageError
from keel_lab.store.heartbeat import Pulse
from keel_lab.store.lease import hold, holder
from keel_lab.store.remote import Remote
from keel_lab.store.root import Root, StorageError

FAST = Pulse(interval=0.01, expiry=30.0, settle=0.0)
PATH = "sweeps/t/lease.json"


class Away:
    """A backend whose writes fail while `away`."""

    def __init__(self, backend):
        self._backend, self.away = backend, False
        self.tried = threading.Event()

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def write(self, path, content, *, synced=True):
        if self.away:
            self.tried.set()
            raise OSError("the network is away")
        self._backend.write(path, content, synced=synced)


@pytest.fixture
def backend():
    filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(MemoryFileSystem()))
    return Away(Remote(filesystem, f"/{uuid.uuid4().hex}"))


@pytest.fixture
def root(backend):
    return Root(backend, "the-store")


def lease_of(root, **changes):
    facts = {"schema": 1, "host": "far", "pid": 7, "started": 1.8e9, "token": "x", "beat": time.time(), "expiry": 30.0}
    root.write(PATH, json.dumps(facts | changes).encode())


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def beat(root):
    return json.loads(root.read(PATH))["beat"]


def test_it_beats_while_it_is_held_and_stops_after(root):
    with hold(root, "t", FAST):
        first = beat(root)
        wait_until(lambda: beat(root) > first)
    assert not root.exists(PATH)
    assert "keel-lab-lease" not in [thread.name for thread in threading.enumerate()]


def test_a_live_one_elsewhere_refuses(root):
    lease_of(root)
    assert holder(root, "t") == {"host": "far", "pid": 7, "started": 1.8e9}
    with pytest.raises(UsageError, match="sweep t is being run by pid 7 on host far since 2027-"):
        hold(root, "t", FAST).__enter__()
    assert json.loads(root.read(PATH))["token"] == "x"


def test_an_expired_one_is_taken_over(root):
    lease_of(root, beat=time.time() - 31)
    assert holder(root, "t") is None
    with hold(root, "t", FAST):
        assert holder(root, "t")["pid"] == os.getpid()


@pytest.mark.parametrize("hours", [-2, 2], ids=["set back", "set forward"])
def test_a_holder_whose_clock_jumped_is_not_taken_for_dead(root, hours):
    def beats():
        while not stop.wait(0.002):
            lease_of(root, beat=time.time() + 3600 * hours)

    stop = threading.Event()
    lease_of(root, beat=time.time() + 3600 * hours)
    thread = threading.Thread(target=beats)
    thread.start()
    try:
        with pytest.raises(UsageError, match="pid 7 on host far"):
            hold(root, "t", Pulse(interval=0.2, expiry=30.0, settle=0.0)).__enter__()
    finally:
        stop.set()
        thread.join()


def test_a_dead_holder_whose_clock_was_ahead_does_not_hold_for_hours(root):
    lease_of(root, beat=time.time() + 7200)
    with hold(root, "t", FAST):
        assert holder(root, "t")["pid"] == os.getpid()


@pytest.mark.parametrize("content", [b"torn", b'{"schema": 1}'])
def test_a_damaged_one_is_free(root, content):
    root.write(PATH, content)
    with hold(root, "t", FAST):
        assert holder(root, "t")["pid"] == os.getpid()


@pytest.mark.parametrize("change", [{"token": "other"}, {"schema": 99}], ids=["same version", "newer version"])
def test_who_was_taken_over_learns_it_and_leaves_the_lease_alone(root, change):
    def lost():
        try:
            lease.check()
        except StorageError as error:
            return "another driver took this sweep over" in str(error)
        return False

    with hold(root, "t", FAST) as lease:
        lease.check()
        lease_of(root, **change)
        # A beat that was under way may still land on top, as on a real store: the other driver then writes again.
        wait_until(lambda: lost() or lease_of(root, **change))
    assert root.exists(PATH)


def test_of_two_that_write_at_once_the_later_one_has_it(root, monkeypatch):
    settle = Pulse(interval=10.0, expiry=30.0, settle=0.01)
    monkeypatch.setattr("keel_lab.store.heartbeat.time.sleep", lambda seconds: lease_of(root))
    with pytest.raises(UsageError, match="pid 7 on host far"):
        hold(root, "t", settle).__enter__()


def test_a_beat_that_fails_is_said_and_made_up_for(backend, root, caplog):
    with hold(root, "t", FAST) as lease:
        backend.away = True
        assert backend.tried.wait(30)
        backend.away = False
        first = beat(root)
        wait_until(lambda: beat(root) > first)
        lease.check()
    assert "a beat of the lease failed" in caplog.text
    assert "the network is away" in caplog.text
