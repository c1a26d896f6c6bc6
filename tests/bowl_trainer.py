"""A trainer without torch whose loss is a bowl over log LR and log alpha / L, and which breaks above an LR.

`bowl` is best at LR 1e-2 and alpha = L; above `EDGE` times sqrt(alpha / L) its loss is NaN. `late` starts behind and
overtakes. KEEL_BOWL_SLEEP is how many seconds a step takes; with KEEL_BOWL_CRASH every run at an LR above it crashes.
"""

from __future__ import annotations

import math
import os
import random
import time
from pathlib import Path

from keel_lab.architecture import Declaration, Option
from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at
from keel_lab.schedule.reporting import Report
from keel_lab.settings import GridSchedule
from keel_lab.trial import Trial

H1 = 3.0
EDGE = 0.05
METRICS = ("val_loss", "extra")
_ALPHA = {"alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True)}


def _declared(name: str, options: dict[str, Option]) -> Declaration:
    return Declaration(name, name, "tests", lambda model, blocks, options: blocks * model.width**2, options)


ARCHITECTURES = [_declared("bowl", _ALPHA), _declared("plain", {}), _declared("late", {})]


def preflight(trial: Trial) -> None:
    """Refuses nothing."""


def final_loss(trial: Trial) -> float:
    """Where the loss is headed: 1 nat at best."""
    units = float(trial.options.get("alpha", trial.sublayers)) / trial.sublayers
    lr = trial.schedule.lr if isinstance(trial.schedule, GridSchedule) else 1e-2
    better = 0.2 if trial.architecture == "late" else 0.0
    return 1.0 - better + 0.3 * math.log10(lr / 1e-2) ** 2 + 0.2 * math.log10(units) ** 2


def breaks_at(trial: Trial) -> float:
    """The LR above which it breaks."""
    return EDGE * math.sqrt(float(trial.options.get("alpha", trial.sublayers)) / trial.sublayers)


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Trains nothing, but as a trainer would."""
    report.facts(unigram_entropy=H1, chance=5.5, device="bowl")
    step, go_on, goal, steps = 0, True, final_loss(trial), trial.schedule.steps
    if report.resume is not None:
        step = int(report.resume.checkpoint.read_text())
    crash = float(os.environ.get("KEEL_BOWL_CRASH", "inf"))
    while go_on:
        step += 1
        lr = lr_at(trial.schedule, step)
        if lr > crash:
            raise RuntimeError("the bowl fell")
        time.sleep(float(os.environ.get("KEEL_BOWL_SLEEP", "0")))
        noise = random.Random(f"{trial.init_seed}/{trial.data_seed}/{step}").gauss(0.0, 0.01)
        way = 1.0 - step / steps if trial.architecture == "late" else 0.9 ** (step * 60 / steps)
        loss = math.nan if lr > breaks_at(trial) else goal + (H1 - goal) * way + noise
        go_on = report.step(Step(step, loss, lr, H1, 1.0, tokens=step * trial.tokens_per_step))
        if report.checkpoint_due:
            path = workdir / "bowl.ckpt"
            path.write_text(str(step))
            report.checkpoint(path)
    if report.finished:
        report.metric("val_loss", goal + random.Random(trial.init_seed).gauss(0.0, 0.02))
