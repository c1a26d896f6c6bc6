"""A trainer for tests on hosts that share no disk: it needs its data shard, and resumes from its checkpoints.

Its losses are arithmetic on every byte of the shard, so that another shard, or a wrong resume, would show. CLUSTER_PACE
is how many seconds a step takes. On a host with a file /tmp/bad each trial dies at once. Each start appends the
step it goes on from to /tmp/side/TRIAL_ID of its host; /tmp/side/now is where the latest trial there stands.
"""

import hashlib
import json
import os
import random
import time
from pathlib import Path

from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at

SIDE = Path("/tmp/side")


def preflight(trial):
    """Takes any trial."""


def run(trial, workdir, report):
    """Trains nothing."""
    if Path("/tmp/bad").exists():
        raise OSError("this host is broken")
    step, memory = 0, 0.0
    if report.resume is not None:
        step, memory = json.loads(report.resume.checkpoint.read_text())
        assert step == report.resume.step
    shard = report.data_folder()
    seed = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(shard.glob("*.bin")))).hexdigest()
    SIDE.mkdir(exist_ok=True)
    with (SIDE / trial.id).open("a") as file:
        file.write(f"{step}\n")
    report.facts(device="toy")
    go_on = True
    while go_on:
        step += 1
        memory = 0.9 * memory + random.Random(f"{seed}/{trial.init_seed}/{step}").gauss(0.0, 0.01)
        time.sleep(float(os.environ.get("CLUSTER_PACE", "0")))
        loss = 1.0 + 3.0 * 0.97**step + memory
        go_on = report.step(Step(step, loss, lr_at(trial.schedule, step), tokens=step * trial.tokens_per_step))
        if report.checkpoint_due or step % 10 == 0:
            file = workdir / "toy.ckpt"
            file.write_text(json.dumps([step, memory]))
            report.checkpoint(file)
        (SIDE / "now").write_text(f"{trial.id} {step}")
