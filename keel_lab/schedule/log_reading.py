"""What `keel-lab logs` prints: what a trial's last attempts logged, and how its failed ones ended."""

from __future__ import annotations

import json
from datetime import datetime

from keel_lab.errors import UsageError
from keel_lab.result import Failure
from keel_lab.schedule.live_snapshot import running_trials
from keel_lab.store import lease
from keel_lab.store.lookup import FoundTrial
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials


def describe_log(found: FoundTrial, root: Root, *, as_json: bool) -> str:
    """The log as text or JSON, without a trailing newline.

    Raises:
        UsageError: if the trial has left neither a log nor a failed attempt.
    """
    trials = Trials(root)
    log, attempts = trials.log(found.trial_id), trials.attempts(found.trial_id)
    if as_json:
        content = {
            "trial_id": found.trial_id,
            "name": found.name,
            "sweeps": [home.sweep.name for home in found.homes],
            "log": log,
            "attempts": [attempt.to_json() for attempt in attempts],
        }
        return json.dumps(content, indent=2, allow_nan=False)
    if log is None and not attempts:
        raise UsageError(f"trial {found.name} has no log yet: {_why(found, root)}")
    ends = [_end(number, attempt) for number, attempt in enumerate(attempts, start=1)]
    return "\n".join([*([log.rstrip()] if log else []), *ends])


def _end(number: int, failure: Failure) -> str:
    when = "" if failure.at is None else f" at {datetime.fromtimestamp(failure.at).astimezone():%Y-%m-%d %H:%M:%S %z}"
    where = f" on {failure.node}" if failure.node else ""
    return f"--- attempt {number} failed{when}{where}: {failure.kind}: {failure.message}"


def _why(found: FoundTrial, root: Root) -> str:
    for home in found.homes:
        name = home.sweep.name
        if lease.holder(root, name) and found.trial_id in running_trials(root, name):
            return f"it runs now, and logs are stored when an attempt ends; keel-lab status {name} --watch"
    return f"it has not run; keel-lab resume {found.homes[0].sweep.name} runs it" if found.homes else "it has not run"
