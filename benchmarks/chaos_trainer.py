"""A trainer for `benchmarks/chaos.py`: arithmetic with a state that every wrong resume would betray.

Two trials of three stay healthy; the third loses its level at an LR of 0.02. CHAOS_SLEEP is how many seconds a step
takes, so that there is something to interrupt.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from pathlib import Path

from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at
from keel_lab.schedule.reporting import Report
from keel_lab.trial import Trial

H1 = 3.0  # nats
EVERY = 10  # steps between checkpoints


def preflight(trial: Trial) -> None:
    """Every trial is possible."""


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Takes steps until the report says to stop."""
    step, memory = 0, 0.0
    if report.resume is not None:
        state = json.loads(report.resume.checkpoint.read_text())
        step, memory = state["step"], state["memory"]
    report.facts(unigram_entropy=H1, chance=math.log(256), device="chaos")
    go_on = not report.finished
    while go_on:
        step += 1
        lr = lr_at(trial.schedule, step)
        batch = random.Random(f"{trial.data_seed}/{step}").gauss(0.0, 0.1)
        memory = 0.9 * memory + random.Random(f"{trial.init_seed}/{step}").gauss(0.0, 0.001)
        lost = trial.init_seed % 3 == 0 and lr >= 0.02
        level = H1 if lost else max(1.0, H1 * 0.9**step)
        time.sleep(float(os.environ.get("CHAOS_SLEEP", "0")))
        go_on = report.step(Step(step, level + batch + memory, lr, H1 + batch, 1.0 + abs(batch)))
        if report.checkpoint_due or step % EVERY == 0:
            path = workdir / "chaos.ckpt"
            path.write_text(json.dumps({"step": step, "memory": memory}))
            report.checkpoint(path)
    if report.finished:
        report.metric("memory", memory)
