"""A trainer without torch: its loss is arithmetic on the LR, the seeds and a state that a wrong resume would betray.

What a trial does beside that is named by its architecture (see `_misbehave`). Options say at which LR its level is lost
(`collapse_lr`: while the LR is there; `break_lr`: for good), at which it is 0.5 nats too high (`slow_lr`; with a peak
above `slow_peak`), and above which peak it never learns (`stall_peak`).
With
KEEL_TOY_BAD_NODE set every trial fails at once. KEEL_TOY_SLEEP is how many seconds a step takes. Each start appends a
line to KEEL_TOY_SIDE/TRIAL_ID, to be counted. With KEEL_TOY_HOLD_AFTER=N all starts after the first N take no step.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import random
import resource
import signal
import time
import warnings
from pathlib import Path

from keel_lab.curve import Step
from keel_lab.learning_rate import lr_at
from keel_lab.schedule.reporting import Report
from keel_lab.settings import AnySchedule, ForkSchedule, RampSchedule
from keel_lab.trial import Trial

H1 = 3.0  # nats
CHECKPOINT_STEPS = 25

runs_here = 0


def preflight(trial: Trial) -> None:
    """Refuses what is called impossible; the first time, `toy_unlucky` is killed over it."""
    if trial.architecture == "toy_unlucky":
        mark = Path(os.environ["KEEL_TOY_SIDE"]) / "unlucky"
        if not mark.exists():
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if trial.architecture.startswith("toy_impossible"):
        raise ValueError(f"{trial.architecture}: {trial.model.heads} heads are one too many")


def run(trial: Trial, workdir: Path, report: Report) -> None:
    """Trains nothing, but as a trainer would."""
    global runs_here
    runs_here += 1
    if os.environ.get("KEEL_TOY_BAD_NODE"):
        raise OSError("this node has no toys")
    first = _note_start(trial, report)
    step, memory, broken = 0, 0.0, False
    if report.resume is not None:
        state = json.loads(report.resume.checkpoint.read_text())
        step, memory, broken = state["step"], state["memory"], state.get("broken", False)
        assert step == report.resume.step
    report.facts(unigram_entropy=H1, chance=math.log(256), device="toy", **_process())
    logging.getLogger("toy").info("training from step %d", step)
    warnings.warn("toys are no models", stacklevel=1)
    go_on = True
    while go_on:
        step += 1
        if trial.architecture == "toy_leaves" and step == 41:
            return
        _misbehave(trial, step, first)
        broken = broken or lr_at(trial.schedule, step) >= _option(trial, "break_lr")
        record, memory = _step(trial, step, memory, broken)
        time.sleep(float(os.environ.get("KEEL_TOY_SLEEP", "0")))
        go_on = report.step(record)
        if report.checkpoint_due or step % CHECKPOINT_STEPS == 0:
            path = workdir / "toy.ckpt"
            path.write_text(json.dumps({"step": step, "memory": memory, "broken": broken}))
            report.checkpoint(path)
            path.unlink()
    if report.finished:
        report.metric("memory", memory)
        report.metric("nothing", math.nan)


def starts(side: Path, trial_id: str) -> list[int]:
    """The step that each start of a trial went on from."""
    path = side / trial_id
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _option(trial: Trial, name: str) -> float:
    return float(trial.options.get(name, math.inf))


def _peak(schedule: AnySchedule) -> float:
    trunk = schedule.trunk if isinstance(schedule, ForkSchedule) else schedule
    return trunk.peak_lr if isinstance(trunk, RampSchedule) else trunk.lr


def _step(trial: Trial, step: int, memory: float, broken: bool) -> tuple[Step, float]:
    lr = lr_at(trial.schedule, step)
    batch = random.Random(f"{trial.data_seed}/{step}").gauss(0.0, 0.1)
    memory = 0.9 * memory + random.Random(f"{trial.init_seed}/{step}").gauss(0.0, 0.001)
    lost = broken or lr >= _option(trial, "collapse_lr") or _peak(trial.schedule) > _option(trial, "stall_peak")
    slow = lr >= _option(trial, "slow_lr") and _peak(trial.schedule) > float(trial.options.get("slow_peak", 0.0))
    level = H1 if lost else max(1.0, H1 * 0.95**step) + 0.5 * slow
    tokens = step * trial.tokens_per_step
    return Step(step, level + batch + memory, lr, H1 + batch, 1.0 + abs(batch), False, False, True, tokens), memory


def _process() -> dict[str, object]:
    return {
        "runs_here": runs_here,
        "pid": os.getpid(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _note_start(trial: Trial, report: Report) -> bool:
    side = os.environ.get("KEEL_TOY_SIDE")
    if side is None:
        return True
    Path(side).mkdir(parents=True, exist_ok=True)
    first = not starts(Path(side), trial.id)
    with (Path(side) / trial.id).open("a") as file:
        file.write(f"{report.resume.step if report.resume else 0}\n")
    if "KEEL_TOY_HOLD_AFTER" in os.environ and _number(Path(f"{side}.order")) > int(os.environ["KEEL_TOY_HOLD_AFTER"]):
        time.sleep(3600)
    return first


def _number(order: Path) -> int:
    """The number of this start among those of all processes, from 1."""
    with order.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(".")
        file.flush()
        return order.stat().st_size


def _misbehave(trial: Trial, step: int, first: bool) -> None:
    if step != 40:
        return
    match trial.architecture:
        case "toy_crash":
            raise ZeroDivisionError("the toy fell off the table")
        case "toy_crash_once" if first:
            raise ZeroDivisionError("the toy fell off the table")
        case "toy_oom":
            raise MemoryError("no room for the toy")
        case "toy_exit":
            raise SystemExit(3)
        case "toy_hang" if first:
            time.sleep(3600)
        case "toy_hungry":
            _eat()
        case "toy_kill_once" if first:
            os.kill(os.getpid(), signal.SIGKILL)


def _eat() -> None:
    """Asks for more memory than the kernel gives this process: a real limit, put back for the next trial."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, before[1]))
    try:
        bytearray(2**30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
