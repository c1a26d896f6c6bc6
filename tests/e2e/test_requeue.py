"""What a queue system does: it ends the job with SIGTERM and later starts the same command again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.toy_trainer import starts

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds; only ever waited for when something is broken
SWEEP = """\
schema: 1
name: queued
protocol: ramp
trainer: tests.toy_trainer
grid:
  architecture: [toy]
  depth: {blocks: [4]}
  seed: [0, 1, 2, 3]
ramp: {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 150}
siblings: {reference: false}
resources: {cpus: 1, memory: 64MiB}
"""


def test_a_requeued_job_goes_on(tmp_path):
    (tmp_path / "queued.yaml").write_text(SWEEP)
    side = tmp_path / "side"

    def job(sleep):
        environment = {**os.environ, "KEEL_TOY_SIDE": str(side), "KEEL_TOY_SLEEP": sleep, "PYTHONPATH": str(REPOSITORY)}
        command = ["run", "queued.yaml", "--tracking", "off", "--storage", "store"]
        return subprocess.Popen(
            [sys.executable, "-m", "keel_lab", *command], cwd=tmp_path, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = job("0.05")
    until = time.monotonic() + PATIENCE
    while not side.exists() or not any(side.iterdir()):
        assert first.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(1.5)  # some steps
    first.send_signal(signal.SIGTERM)
    said = first.communicate(timeout=PATIENCE)[1]
    assert first.returncode == 128 + signal.SIGTERM, said
    assert "go on with: keel-lab resume queued" in said

    root = Root.open(tmp_path / "store")
    trials = [planned.trial.id for planned in Sweeps(root).load("queued").trials]
    begun = [trial_id for trial_id in trials if starts(side, trial_id)]
    stopped = {trial_id: Trials(root).checkpoint(trial_id, tmp_path).step for trial_id in begun}
    assert stopped
    assert all(0 < step < 150 for step in stopped.values())
    assert all(Trials(root).attempts(trial_id) == [] for trial_id in trials)  # a clean stop is no failure

    again = job("0")
    assert again.wait(PATIENCE) == 0, again.stderr.read()
    again.stderr.close()
    assert {trial_id: starts(side, trial_id) for trial_id in trials} == {
        trial_id: [0, stopped[trial_id]] if trial_id in stopped else [0] for trial_id in trials
    }
    assert len(Trials(root).results(trials)) == 4
