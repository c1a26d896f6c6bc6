"""An attempt gets an empty folder; the process makes few of them, and a killed one's go with the next process."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keel_lab.schedule.workdir import workdir

HOLD = """
import tempfile, time
tempfile.tempdir = {base!r}
from keel_lab.schedule.workdir import workdir
with workdir() as folder:
    (folder / "checkpoint").write_bytes(b"much")
    print(folder, flush=True)
    {then}
"""


def test_an_empty_folder_is_used_again_and_a_used_one_removed():
    with workdir() as first:
        assert not any(first.iterdir())
    with workdir() as second:
        assert second == first
        (second / "weights").write_text("1")
    assert not second.exists()
    with workdir() as third:
        assert not any(third.iterdir())


def test_two_at_a_time_have_folders_of_their_own():
    with workdir() as one, workdir() as other:
        assert one != other


def test_an_error_inside_empties_it_as_well():
    def break_off() -> None:
        with workdir() as folder:
            used.append(folder)
            (folder / "weights").write_text("1")
            raise RuntimeError

    used: list[Path] = []
    with pytest.raises(RuntimeError):
        break_off()
    assert not used[0].exists()


def test_a_folder_that_a_cleaner_took_is_made_again():
    with workdir() as folder:
        pass
    shutil.rmtree(folder.parent)
    with workdir() as again:
        (again / "weights").write_text("1")


def test_the_folder_of_a_process_goes_with_it_or_if_it_was_killed_with_the_next(tmp_path):
    def start(then: str) -> subprocess.Popen[str]:
        code = HOLD.format(base=str(tmp_path), then=then)
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

    with start("time.sleep(60)") as killed:
        folder = killed.stdout.readline().strip()
        assert [path.name for path in Path(folder).iterdir()] == ["checkpoint"]
        killed.send_signal(signal.SIGKILL)
    assert [path.name for path in Path(folder).iterdir()] == ["checkpoint"]
    with start("pass") as following:
        following.wait()
    assert not any(tmp_path.iterdir())
