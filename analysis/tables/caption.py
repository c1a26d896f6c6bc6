"""What must stand below a table for its numbers to mean something."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from analysis.intervals import ENOUGH, LEVEL
from analysis.ramp import describe
from analysis.readings import Counting, Reading, SweepReadings
from analysis.statistics import Estimate, coverage
from keel_lab.detect.thresholds import Thresholds
from keel_lab.own_trainer import DEFAULT
from keel_lab.settings import RampSchedule

NOT_LEARNED = (
    "not learned: the loss never got clearly below the unigram level H1, where a model sits that ignores its context; "
    "if it was still falling, more steps (a gentler ramp) give it time."
)


def progress(sweep: SweepReadings) -> str | None:
    """What is still out, with the remedy; None for a complete sweep."""
    name, total = sweep.stored.name, sweep.total
    if sweep.finished == total:
        return None
    failed = sum(one.state == "failed" for one in (*sweep.readings, *sweep.beside))
    done = f"{sweep.finished} of {total} trials" if sweep.finished else f"none of {total} trials"
    also = f", {failed} failed" if failed else ""
    return f"{name}: {done} finished{also}; `keel-lab resume {name}` runs the rest."


def measure(readings: Sequence[Reading]) -> list[str]:
    """What Max LR is here, and who judged."""
    detectors = sorted({one.verdict.detector for one in readings if one.verdict is not None})
    return [
        "Max LR: the LR at the last step before the onset of divergence; strict, that is any of the modes non_finite, "
        "collapse, irrecoverable and stagnation counts. A run that did not diverge by the peak is censored.",
        *([f"Verdicts by detector {', '.join(detectors)}."] if detectors else []),
    ]


def counting(rules: Collection[Counting]) -> list[str]:
    """What the columns beside the strict reading count."""
    words = {
        Counting.DEGRADATION: "modes 1+2+3: degradation counts too, from where a run falls behind, for good, the lower "
        "envelope of its siblings at lower LR on the same data: its reference (to a tenth of the peak) or held forks, "
        "as the sweep has them. It depends on them: more siblings find it earlier.",
        Counting.IRREVERSIBLE: "irreversible: of the strict events only those that a tenth of the LR does not undo: a "
        "fork from the end of the run stays above one from before the onset. > where it was undone: the run had been "
        "stopped at that LR.",
    }
    return [text for rule, text in words.items() if rule in rules]


def ramp(schedule: RampSchedule) -> str:
    """Shape and slope, and why they matter."""
    return f"Ramp: {describe(schedule)}. Max LR depends on shape and slope: compare readings at equal slope only."


def intervals(estimates: Sequence[Estimate]) -> list[str]:
    """What `n`, the median and its interval over seeds are worth."""
    if not any(one.n for one in estimates):
        return []
    several = sorted({one.clusters for one in estimates if one.n > 1 and one.clusters > 1})
    if not several:
        alone = max(one.n for one in estimates) == 1
        return ["n = 1: one seed a cell, hence no interval." if alone else "One data seed a cell, hence no interval."]
    covers = ", ".join(f"{coverage(n):.0%} (n = {n})" for n in several)
    few = [n for n in several if n < ENOUGH]
    widened = f", widened where they are fewer than {ENOUGH}" if few else ""
    notes = [
        f"Max LR is the median on log LR over n seeds (Kaplan-Meier where censored) with its {LEVEL:.0%} interval: a "
        f"bootstrap over data seeds{widened}; > or < marks an end that censoring leaves open. "
        f"range is the smallest to the largest reading, which covers the true median {covers} of the time."
    ]
    if any(one.clusters == 1 for one in estimates):
        notes.append("A single data seed gives no interval.")
    if any(one.clusters in few and one.n in (one.censored, one.below) for one in estimates):
        notes.append(f"Fewer than {ENOUGH} seeds, all of them censored, give none.")
    return [" ".join(notes)]


def ratios(reference: str, *, seeds: bool, ours: bool, paper: bool) -> list[str]:
    """What the ratio columns compare."""
    notes = []
    same = f"that of {reference} in the same sweep, at the same depth and settings"
    if ours and seeds:
        notes.append(
            f"ratio: Max LR over {same}, at equal seeds: the median over n pairs, or as many as are said, "
            f"with its {LEVEL:.0%} interval; > or < where censoring leaves a side open, - where nothing is known."
        )
    elif ours:
        notes.append(f"ratio: Max LR over {same}; > or < where one of the two is censored, - where both are.")
    if paper:
        notes.append(
            f"paper's ratio: the same ratio to {reference} in Table 1 of arXiv 2601.19895v1, whose depths 64 and 512 "
            "are sub-layers (32 and 256 blocks); its models are wider and its ramp is linear: context, not a target."
        )
    return notes


def setting(sweeps: Sequence[SweepReadings], readings: Sequence[Reading]) -> list[str]:
    """Depth's unit, the models' common shape, and thresholds that are not the defaults."""
    notes = [_models(readings)]
    for sweep in sweeps:
        defaults = Thresholds().model_dump()
        changed = {key: value for key, value in sweep.stored.thresholds.model_dump().items() if value != defaults[key]}
        if changed:
            words = ", ".join(f"{key}={value}" for key, value in changed.items())
            notes.append(f"{sweep.stored.name} was judged with {words}; other thresholds are the defaults.")
    return notes


def _models(readings: Sequence[Reading]) -> str:
    trials = [one.planned.trial for one in readings]
    own = sorted({trial.trainer for trial in trials} - {DEFAULT})
    if own:  # what its settings mean is known to the trainer alone
        return f"Trained by {', '.join(own)}; blocks are what that takes them for, sub-layers are twice as many."
    depth = "Depth: a block is attention and feed-forward, two sub-layers."
    shapes = {(one.model.width, one.train.batch_size, one.model.context, one.train.precision) for one in trials}
    if len(shapes) != 1:
        return depth
    width, batch, context, precision = next(iter(shapes))
    optimizers = sorted({one.train.optimizer for one in trials})
    used = "" if optimizers == ["adamw"] else f", {', '.join(optimizers)}"
    return f"{depth} Width {width}, {batch} sequences of {context} tokens a step, {precision}{used}."
