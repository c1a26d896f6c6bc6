"""The log of one attempt: Python logging, warnings and prints of the run, appended to the trial's log in storage."""

from __future__ import annotations

import io
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from keel_lab.schedule.executor import Task
from keel_lab.schedule.printed import printed_into
from keel_lab.store.root import StorageError
from keel_lab.store.trials import Trials

logger = logging.getLogger(__name__)


@contextmanager
def trial_log(task: Task, trials: Trials) -> Iterator[None]:
    """Collects what is logged (from INFO on), warned and printed inside; stores it at the end, however that comes."""
    text = io.StringIO()
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    text.write(f"--- attempt {task.attempt} at {when} on {socket.gethostname()}, process {os.getpid()}\n")
    handler = logging.StreamHandler(text)
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO) if level else logging.INFO)
    try:
        with warnings.catch_warnings(), printed_into(text):
            warnings.showwarning = _log_warning
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        try:
            trials.put_log(task.trial.id, (trials.log(task.trial.id) or "") + text.getvalue())
        except (OSError, StorageError) as error:  # a lost log must not cost the trial
            logger.warning("the log of trial %s is lost: %s", task.trial.id, error)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    logging.getLogger("py.warnings").warning("%s:%s: %s: %s", filename, lineno, category.__name__, message)
