"""A trainer that trains nothing: two steps of a flat loss, in as many seconds as KEEL_LAB_NULL_SECONDS says.

It sleeps, so that what a scheduler adds is not hidden by two trials that share a core.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at
from keel_lab.schedule.reporting import Report
from keel_lab.trial import Trial

SECONDS = "KEEL_LAB_NULL_SECONDS"


def preflight(trial: Trial) -> None:
    """Every trial is possible."""


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Sleeps, and reports the steps of the schedule."""
    time.sleep(float(os.environ.get(SECONDS, "0")))
    for step in range(1, trial.schedule.steps + 1):
        report.step(Step(step, 5.0, lr_at(trial.schedule, step)))
