"""CASES 9: of 180 trials, 117 are done and 2 in flight when the driver is killed; resume runs exactly 63."""

from __future__ import annotations

from tests.driven_sweep import DrivenSweep


def test_case_9_resume_runs_what_is_left_and_no_more(tmp_path):
    sweep = DrivenSweep(tmp_path, seeds=180, steps=20)
    driver = sweep.start("run", "toys.yaml", "budget.max_concurrent=2", KEEL_TOY_HOLD_AFTER="117")
    sweep.wait_until(driver, lambda: sweep.begun == 119 and sweep.finished == 117)
    driver.kill()
    driver.wait()
    done = {path: path.stat().st_mtime_ns for path in sweep.store.glob("trials/*/result.json")}
    assert len(done) == 117
    sweep.call("resume", "toys", "--executor", "local")
    assert sweep.begun == 119 + 63
    assert sweep.finished == 180
    assert {path: path.stat().st_mtime_ns for path in done} == done, "a finished trial was run again"
    assert sweep.status()["states"] == {"completed": 180}
