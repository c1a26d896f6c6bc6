"""What a trial's run says of itself: params, tags and final metrics, as plain text and finite numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keel_lab
from keel_lab.curve import Curve
from keel_lab.detect.agreement import named
from keel_lab.detect.max_lr import MaxLRKind, max_lr
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.plan.planned import PlannedTrial
from keel_lab.result import Failure, TrialResult
from keel_lab.settings import RampSchedule
from keel_lab.track.colour import colour_tags
from keel_lab.track.points import ONCE, paired_loss

LOSS_CAP = 20.0  # nats; above log V of any vocabulary, so that one diverged run does not flatten a chart's linear axis
VALUE_CAP = 1e12  # beyond tokens and parameters of any run, and still a finite axis
RUN_TIMES = ("started_at", "finished_at")  # the run's own
TAG_LIMIT = 5000  # characters; MLflow's own limit is a little above


def identity(planned: PlannedTrial) -> dict[str, str]:
    """Params of a run known before it starts: the axes as labelled, the numbers they became, the schedule."""
    trial = planned.trial
    lr = trial.schedule.peak_lr if isinstance(trial.schedule, RampSchedule) else trial.schedule.lr
    facts: dict[str, Any] = {
        "architecture": trial.architecture,
        "blocks": trial.blocks,
        "sublayers": trial.sublayers,
        "cell": str(planned.cell),
        "lr": lr,
        "log10_lr": round(math.log10(lr), 6),
        "init_seed": trial.init_seed,
        "data_seed": trial.data_seed,
        "width": trial.model.width,
        "context": trial.model.context,
        "batch_size": trial.train.batch_size,
        "precision": trial.train.precision,
        "protocol": trial.schedule.kind,
        "shape": trial.schedule.shape,
        "steps": trial.schedule.steps,
        "parameters": planned.parameters or "unknown",
    }
    if trial.init_seed == trial.data_seed:
        facts["seed"] = trial.init_seed
    for name, value in trial.options.items():
        facts[name] = planned.labels.get(name, value)
        if isinstance(value, float):  # what the rule (alpha: L) came to
            facts[f"{name}_value"] = value
    for name, label in planned.labels.items():
        facts.setdefault(name, label)
    facts.setdefault("alpha", "none")  # so that every run has it to group and compare by
    return {_key(name): text(value) for name, value in facts.items()}


def conclusion(planned: PlannedTrial, result: TrialResult, verdict: Verdict) -> dict[str, str]:
    """Params of a run known at its end: outcome, verdict, mode and Max LR in words that never hide censoring."""
    words = {
        "outcome": str(result.outcome),
        "verdict": str(verdict.status),
        "mode": "none" if verdict.mode is None else str(verdict.mode),
    }
    if planned.trial.schedule.kind == "ramp":  # a schedule that falls again has no Max LR
        words["max_lr"] = max_lr(verdict).text(lambda lr: f"{lr:.6g}")  # an LR of a ramp, told apart from the next one
    return words


def tags(planned: PlannedTrial) -> dict[str, str]:
    """Tags of a run that never change: what it is and which code wrote it, beside every param of `identity`."""
    return {
        **identity(planned),
        **colour_tags(planned),
        "kind": "trial",
        "role": str(planned.role),
        "trial_id": planned.trial.id,
        "keel_lab.trial_id": planned.trial.id,
        "keel_lab_version": keel_lab.__version__,
    }


def final_tags(
    planned: PlannedTrial, result: TrialResult, verdict: Verdict, beside: Verdict | None = None
) -> dict[str, str]:
    """Tags set when a trial is recorded, and a sentence for the run's description.

    Where a trial is told worse `beside` its siblings, that is its verdict here; params keep the one by itself.
    """
    words = conclusion(planned, result, verdict)
    onset = "" if verdict.onset_step is None else f" from step {verdict.onset_step}"
    max_lr = f"; Max LR {words['max_lr']}" if "max_lr" in words else ""
    found = {
        **words,
        "detector": verdict.detector,
        "onset_step": "none" if verdict.onset_step is None else str(verdict.onset_step),
        "mlflow.note.content": f"{planned.name}: {named(verdict)}{onset}{max_lr}; {result.steps} steps.",
    }
    if beside is not None:
        found |= _beside_tags(planned, result, beside, found)
    return found | execution_tags(result.execution)


def execution_tags(execution: Mapping[str, Any]) -> dict[str, str]:
    """How a run, or the sweep's driver, was executed: versions, commits, device, host."""
    flat = {name: value for name, value in _flat(execution) if name not in RUN_TIMES}
    found = {f"execution.{_key(name)}": text(value)[:TAG_LIMIT] for name, value in flat.items()}
    for name in ("torch", "versions.torch"):
        if name in flat:
            found["torch_version"] = text(flat[name])
    if commit := flat.get("folder_commit") or flat.get("commit"):
        found["mlflow.source.git.commit"] = text(commit).partition("+")[0]  # the column "Version"
    return found


def _beside_tags(
    planned: PlannedTrial, result: TrialResult, beside: Verdict, alone: Mapping[str, str]
) -> dict[str, str]:
    words = conclusion(planned, result, beside)
    onset = "none" if beside.onset_step is None else str(beside.onset_step)
    max_lr = {"max_lr_with_degradation": words["max_lr"]} if "max_lr" in words else {}
    mode = "" if alone["mode"] == "none" else f" ({alone['mode']})"
    note = f"{alone['mlflow.note.content']} Beside its siblings: {named(beside)} from step {onset}."
    return {
        "verdict": words["verdict"],
        "mode": words["mode"],
        "onset_step": onset,
        "detector": beside.detector,
        "verdict_alone": f"{alone['verdict']}{mode}",
        **max_lr,
        "mlflow.note.content": note,
    }


def failure_tags(planned: PlannedTrial, failure: Failure) -> dict[str, str]:
    """Tags of a run whose attempts all failed."""
    sentence = f"{planned.name}: failed ({failure.kind}): {failure.message}"
    return {"outcome": "failed", "failure": str(failure.kind), "mlflow.note.content": sentence[:TAG_LIMIT]}


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", found) for inner, found in _flat(value))
        else:
            yield name, value


def finals(planned: PlannedTrial, result: TrialResult, verdict: Verdict, curve: Curve) -> dict[str, float]:
    """Metrics of the run as a whole: finite and capped, because one NaN takes a run out of MLflow's charts.

    Held-out losses are in `val/`, time and size in `cost/`, all else in `final/`. `final/max_lr` exists only where it
    was measured; a censored run has `final/last_good_lr` and `final/censored` = 1.
    """
    found: dict[str, Any] = {
        "steps": result.steps,
        "diverged": verdict.status is Status.DIVERGED,
        "onset_step": verdict.onset_step,
        **_losses(curve, result.data.get("unigram_entropy")),
        **{_held_out(name): value for name, value in result.metrics.items()},
        **_costs(planned, result, curve),
    }
    if planned.trial.schedule.kind == "ramp" and verdict.last_good_lr:
        found |= {"last_good_lr": verdict.last_good_lr, "censored": verdict.censored}
        found["log10_last_good_lr"] = math.log10(verdict.last_good_lr)
        if max_lr(verdict).kind is MaxLRKind.MEASURED:
            found |= {"max_lr": verdict.last_good_lr, "log10_max_lr": math.log10(verdict.last_good_lr)}
    numbers = {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
    named = {_key(name if name.startswith(ONCE) else f"final/{name}"): value for name, value in numbers.items()}
    return {name: capped(name, value) for name, value in named.items() if math.isfinite(value)}


def _held_out(name: str) -> str:
    return name.replace("val_", "val/", 1) if name.startswith("val_") else name


def _costs(planned: PlannedTrial, result: TrialResult, curve: Curve) -> dict[str, float | None]:
    seconds = [value for value in curve.seconds if math.isfinite(value)]
    return {
        "cost/seconds_per_step": result.execution.get("seconds_per_step"),
        "cost/training_seconds": sum(seconds) if seconds else None,
        "cost/tokens": curve.steps[-1].tokens if len(curve) else None,
        "cost/parameters": planned.parameters or None,
    }


def _losses(curve: Curve, entropy: float | None) -> dict[str, float]:
    losses = [step.loss for step in curve if math.isfinite(step.loss)]
    if not losses:
        return {}
    last = next(step for step in reversed(curve.steps) if math.isfinite(step.loss))
    return {
        "loss": last.loss,
        "best_loss": min(losses),
        "paired_loss": paired_loss(last, entropy),
        "clipped_fraction": sum(step.clipped for step in curve) / len(curve),
    }


def capped(name: str, value: float) -> float:
    """A finite value within what a linear chart axis bears: losses up to LOSS_CAP, all else to +-VALUE_CAP."""
    return min(value, LOSS_CAP) if "loss" in name else max(-VALUE_CAP, min(value, VALUE_CAP))


def text(value: object) -> str:
    """A value as a param: floats with every digit that tells them apart, booleans as YAML writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(name: str) -> str:
    """A name with the characters MLflow allows."""
    return re.sub(r"[^A-Za-z0-9_\-. :/]", "_", name)


def json_ready(value: Any) -> Any:
    """The value with NaN and Inf as words, so that any JSON reader can open the artifact."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
