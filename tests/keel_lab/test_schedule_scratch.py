"""A killed driver's folder is removed by the next one; a living one's is not."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from keel_lab.schedule.scratch import Scratch


@pytest.fixture
def base(monkeypatch):
    short = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp"))  # pytest's own folders are too long for Ray's sockets
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    yield short
    short.rmdir()


def test_it_goes_when_it_is_closed(base):
    scratch = Scratch(sockets=True)
    (scratch.folder / "session").mkdir()
    scratch.close()
    assert list(base.iterdir()) == []


def test_the_next_driver_removes_what_a_killed_one_left(base):
    code = f"import tempfile, time; tempfile.tempdir = {str(base)!r}\n"
    code += (
        "from keel_lab.schedule.scratch import Scratch\nprint(Scratch(sockets=True).folder, flush=True); time.sleep(60)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    left = Path(killed.stdout.readline().strip())
    living = Scratch(sockets=True)
    assert left.is_dir()  # its driver lives
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    following = Scratch(sockets=True)
    assert not left.exists()
    assert living.folder.is_dir()
    living.close()
    following.close()
