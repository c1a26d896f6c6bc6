"""The verdict of each file of a `judge` call, with its evidence, as JSON and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keel_lab.detect.agreement import judge_curve, named
from keel_lab.detect.siblings import Sibling
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.judge.log import Log
from keel_lab.spec.label import label_text

_QUIET = (Status.HEALTHY, Status.TRANSIENT)


@dataclass(frozen=True)
class Levels:
    """What is known of the data, nats: log V or the like, and the unigram entropy H1; None where it is not."""

    chance: float | None = None
    unigram: float | None = None


@dataclass(frozen=True)
class Judgement:
    """A file's log and its verdict."""

    file: str
    log: Log
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """The nine keys that `judge --json` promises; every number finite or null."""
        verdict = self.verdict
        return {
            "file": self.file,
            "verdict": str(verdict.status),
            "mode": None if verdict.mode is None else str(verdict.mode),
            "onset_step": verdict.onset_step,
            "last_good_step": verdict.last_good_step,
            "last_good_lr": verdict.last_good_lr,
            "censored": verdict.censored,
            "evidence": finite_or_null({**verdict.evidence, "detector": verdict.detector, "log": self.log.facts}),
        }


def finite_or_null(value: Any) -> Any:
    """The value with every NaN and Inf in it as None: JSON has neither."""
    if isinstance(value, Mapping):
        return {str(key): finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def judge_log(file: str, log: Log, siblings: Sequence[Log], levels: Levels, thresholds: Thresholds) -> Judgement:
    """Judges one log.

    The unigram level is as given, else the mean of the batches' unigram losses; without either, a given chance level
    serves for stagnation, and a fall back to it is called irrecoverable: it says nothing of unigrams.
    """
    h1 = levels.unigram if levels.unigram is not None else log.unigram_entropy
    others = [Sibling(other.source, other.steps) for other in siblings]
    if h1 is None and levels.chance is not None:
        bare = [step._replace(unigram_loss=math.nan) for step in log.steps]
        found = judge_curve(bare, thresholds, levels.chance, others)
        if found.mode is Mode.COLLAPSE:
            found = replace(found, mode=Mode.IRRECOVERABLE)
        level = "chance, as given"
    else:
        found = judge_curve(log.steps, thresholds, h1, others)
        estimate = f"mean of {log.facts['columns'].get('unigram_loss')}"
        level = "none" if h1 is None else "unigram entropy, as given" if levels.unigram is not None else estimate
    if log.facts.get("rows_without_loss_at_the_end") and found.status in _QUIET:
        found = Verdict(Status.UNDECIDED, learned=found.learned, evidence={**found.evidence, "rule": "losses_stop"})
    paired = h1 is not None and any(math.isfinite(step.unigram_loss) for step in log.steps)
    facts = {"level_of_the_ignorant": level, "loss": "paired" if paired else "raw", "chance": levels.chance}
    return Judgement(file, log, replace(found, evidence={**found.evidence, **facts}))


def text(judgements: Sequence[Judgement]) -> str:
    """A small block a file, and the Max LR bracket where files at several held LRs tell one; no trailing newline."""
    lines = [line for one in judgements for line in _block(one)]
    closing = bracket(judgements)
    return "\n".join([*lines, *([closing] if closing else [])])


def _block(one: Judgement) -> Iterable[str]:
    verdict, facts = one.verdict, one.log.facts
    words = [f"{one.file}: {named(verdict)}"]
    if verdict.onset_step is not None:
        words.append(f"onset at step {verdict.onset_step}")
    if verdict.last_good_step is not None:
        words.append(f"last good step {verdict.last_good_step} ({_lr_text(verdict, one.log.peak_lr)})")
    yield ", ".join(words)
    yield f"  {reason(verdict)}"
    if "disagreement" in verdict.evidence:
        yield f"  the detectors disagree: {verdict.evidence['disagreement']}"
    if facts["runs"] > 1:
        yield f"  the log holds {facts['runs']} runs, one after the other; the last one was judged"
    if "rows_without_loss" in facts:
        yield (
            f"  {facts['rows_without_loss']} of {facts['rows']} rows have no loss and were left out, "
            f"the last of them row {facts['last_row_without_loss']}"
        )
    for name, why in verdict.evidence.get("siblings", {}).get("left_out", {}).items():
        yield f"  sibling {name} was left out: {why}"


def _lr_text(verdict: Verdict, peak: float | None) -> str:
    """The LR at the last good step, and for a curve that came through the largest it has seen."""
    if verdict.last_good_lr is None:
        return "LR unknown"
    words = f"LR {_rounded(verdict.last_good_lr)}"
    if verdict.censored and peak is not None and peak > verdict.last_good_lr:
        words += f", after a peak of {_rounded(peak)}"
    return f"{words}, censored" if verdict.censored else words


def _rounded(lr: float) -> str:
    return label_text(float(f"{lr:.6g}"))


def reason(verdict: Verdict) -> str:
    """The rule that spoke, with its numbers, in one clause."""
    evidence = verdict.evidence
    h1 = evidence.get("unigram_entropy")

    def nats(key: str) -> str:
        value = evidence.get(key)
        return "?" if value is None else f"{value:.3f}"

    match evidence["rule"]:
        case "above_siblings":
            beside, alone = evidence["siblings"], evidence["alone"]["status"]
            return (
                f"{beside['mean_above']:.2f} nats above {', '.join(beside['envelope'])} at lower LR from "
                f"step {beside['above_from']} on ({beside['samples_above']} samples); by itself {alone}"
            )
        case "not_regained":
            return (
                f"level {nats('best_level')} nats was left for {nats('level')} and not regained (sigma {nats('sigma')})"
            )
        case "blown_up_at_end":
            return f"level {nats('best_level')} nats was left; the curve ends far above everything it started with"
        case "non_finite_in_a_row" | "non_finite_at_end" | "non_finite_weights" as rule:
            words = rule.replace("non_finite", "non-finite").replace("_", " ")
            return f"{words}; {evidence['non_finite_steps']} such steps"
        case "never_learned":
            return f"the loss never left {h1:.3f} nats downwards (it ends at {nats('level')})"
        case "too_few_to_have_learned":
            return f"{evidence['samples']} samples are too few to say whether the loss has left {h1:.3f} nats for good"
        case "losses_stop":
            return (
                "the last rows have no loss: pandas and others write NaN as an empty cell or null; write nan, or leave "
                "these rows out if they hold other metrics"
            )
        case "too_few_samples":
            return f"{evidence['samples']} samples; at least 8 are needed"
        case "suspect_at_end":
            return f"level {nats('best_level')} nats was left; the curve ends before that is confirmed or regained"
    count = evidence.get("transients", 0)
    events = f"{count} instabilit{'y' if count == 1 else 'ies'}, each regained; " if count else ""
    return f"{events}best level {nats('best_level')} nats, level at the end {nats('level')} (sigma {nats('sigma')})"


def bracket(judgements: Sequence[Judgement]) -> str | None:
    """What files at several held LRs say together; None for fewer than two of them, and for LRs that only rise."""
    held = [(lr, one.verdict.status) for one in judgements if (lr := _held_lr(one.log)) is not None]
    good = [lr for lr, status in held if status in _QUIET]
    bad = [lr for lr, status in held if status is Status.DIVERGED]
    if len({*good, *bad}) < 2:
        return None
    if not bad:
        return f"Max LR > {label_text(max(good))} (censored: no file diverged)"
    if not good:
        return f"Max LR < {label_text(min(bad))} (every file diverged)"
    if max(good) >= min(bad):
        return (
            f"no Max LR bracket: LR {label_text(min(bad))} diverged, LR {label_text(max(good))} did not; "
            "judge runs that differ in their LR only"
        )
    return f"Max LR bracket [{label_text(max(good))}, {label_text(min(bad))})"


def _held_lr(log: Log) -> float | None:
    """The peak LR of a run that was not still raising it in its second half."""
    peak = log.peak_lr
    if peak is None:
        return None
    reached = next(i for i, step in enumerate(log.steps) if step.lr == peak)
    return peak if 2 * reached <= len(log.steps) else None
