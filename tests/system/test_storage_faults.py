"""A disk that is really full, a file system that is really read-only (needs root, to mount a tmpfs)."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from tests.driven_sweep import DrivenSweep

LOCAL = ("--executor", "local")


def fill(place: Path) -> Path:
    """Takes all the space there is."""
    file = place / "filling"
    with file.open("wb", buffering=0) as sink, contextlib.suppress(OSError):
        while True:
            sink.write(b"0" * 4096)
    assert shutil.disk_usage(place).free == 0
    return file


def test_a_disk_that_is_full_for_a_while_is_waited_for_and_costs_nothing(tmp_path, tmpfs, undisturbed):
    sweep = DrivenSweep(tmp_path / "sweep", tmpfs.place / "store")
    driver = sweep.start("run", "toys.yaml", sleep=0.004)
    sweep.wait_until(driver, lambda: sweep.finished >= 1)
    filling = fill(tmpfs.place)
    sweep.wait_until(driver, lambda: "next try in" in sweep.said)
    filling.unlink()
    _, said = sweep.end(driver)
    assert "No space left on device" in said
    assert sweep.results() == undisturbed.results()
    assert sweep.report() == undisturbed.report()
    assert sweep.failures() == []


def test_a_disk_that_stays_full_ends_the_run_with_the_command_to_go_on(tmp_path, tmpfs, undisturbed):
    sweep = DrivenSweep(tmp_path / "sweep", tmpfs.place / "store")
    driver = sweep.start("run", "toys.yaml", *LOCAL, sleep=0.004)
    sweep.wait_until(driver, lambda: sweep.finished >= 1)
    filling = fill(tmpfs.place)
    sweep.wait_until(driver, lambda: "next try in" in sweep.said)
    driver.terminate()  # a supervisor that waits no longer; the driver itself would after half a minute
    _, said = sweep.end(driver, expect=143)
    assert said.rstrip().endswith("go on with: keel-lab resume toys")
    assert 1 <= sweep.finished < 6
    filling.unlink()
    sweep.call("resume", "toys", *LOCAL)
    assert sweep.results() == undisturbed.results()


def test_a_storage_that_becomes_read_only_ends_the_run_at_once_and_can_be_read(tmp_path, tmpfs, undisturbed):
    sweep = DrivenSweep(tmp_path / "sweep", tmpfs.place / "store")
    driver = sweep.start("run", "toys.yaml", *LOCAL, sleep=0.004)
    sweep.wait_until(driver, lambda: sweep.finished >= 2)
    tmpfs.read_only(sweep.store / "trials")
    _, said = sweep.end(driver, expect=3)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "Read-only file system; allow it, or name another place with --storage" in errors[0]
    assert said.rstrip().endswith("what was stored is kept; go on with: keel-lab resume toys")
    finished = sweep.finished
    assert sweep.status()["states"]["completed"] == finished  # `status` writes nothing
    assert str(finished) in sweep.call("report", "toys")[0]
    tmpfs.writable()
    sweep.call("resume", "toys", *LOCAL)
    assert sweep.results() == undisturbed.results()
    assert sweep.report() == undisturbed.report()


def test_a_read_only_storage_is_refused_before_anything_runs(tmp_path, tmpfs):
    sweep = DrivenSweep(tmp_path / "sweep", tmpfs.place / "store")
    tmpfs.read_only(tmpfs.place)
    out, said = sweep.call("run", "toys.yaml", *LOCAL, expect=2)
    assert (out, sweep.begun) == ("", 0)
    assert "lease.lock cannot be written: Read-only file system" in said
    assert list(tmpfs.place.iterdir()) == []
