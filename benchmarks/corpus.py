"""The corpus of labelled real runs in tests/data/corpus: curves, and what two labellers saw in their plots."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from keel_lab.curve import Step
from keel_lab.detect.siblings import Sibling
from keel_lab.detect.verdict import Mode, Status

CURVES = Path(__file__).parents[1] / "tests" / "data" / "corpus" / "curves.parquet"
LABELS = CURVES.with_name("labels.csv")
PARTS = ("tune", "held_out", "fresh")
COLUMNS = ("trial", "part", "verdict", "mode", "good_lo", "good_hi", "siblings", "first", "second", "decided_by")
_VERDICTS = (Status.HEALTHY, Status.TRANSIENT, Status.UNCONFIRMED, Status.DIVERGED)


@dataclass(frozen=True)
class Label:
    """What a curve is, by its plot.

    Attributes:
        trial: SWEEP/NAME.
        part: `tune` (looked at while thresholds were chosen), `held_out` (looked at once, before the last of them was)
            or `fresh` (trained and labelled when all of them stood).
        verdict: healthy, transient, unconfirmed or diverged.
        mode: set if and only if diverged.
        good: the interval that holds the last good step; set if and only if unconfirmed or diverged, except for
            stagnation, where no step was.
        siblings: trials at lower LR on the same data in the same order.
        first, second: the two blind labels, as verdict/mode.
        decided_by: `agree`, or what settled it.
    """

    trial: str
    part: str
    verdict: Status
    mode: Mode | None = None
    good: tuple[int, int] | None = None
    siblings: tuple[str, ...] = ()
    first: str = ""
    second: str = ""
    decided_by: str = ""


@dataclass(frozen=True)
class Case:
    """A labelled curve with what a detector may know of it: H1 in nats, and its siblings' curves."""

    label: Label
    steps: Sequence[Step]
    unigram_entropy: float
    siblings: tuple[Sibling, ...] = ()

    def lr_at(self, step: int) -> float | None:
        """The LR of a step's update; None if the curve has no such step."""
        return next((one.lr for one in self.steps if one.step == step), None)

    @property
    def is_ramp(self) -> bool:
        """Whether the LR rises from the first step to the last: only there does an onset read as a Max LR."""
        return all(before.lr < after.lr for before, after in pairwise(self.steps))


def load_cases(curves: Path = CURVES, labels: Path = LABELS) -> list[Case]:
    """Every labelled curve, in the order of the labels.

    Raises:
        ValueError: naming file and line, if a label is not one, or not of these curves.
        OSError: if a file cannot be read.
    """
    by_trial, entropy = read_curves(curves)
    return [
        Case(label, by_trial[label.trial], entropy, tuple(Sibling(name, by_trial[name]) for name in label.siblings))
        for label in read_labels(labels, by_trial)
    ]


def read_curves(path: Path = CURVES) -> tuple[dict[str, list[Step]], float]:
    """Curves by trial, and H1 in nats, from a file of benchmarks/pack_curves.py.

    The file holds neither `skipped` nor `weights_finite`. Every step's gradient norm was recorded, so that a NaN there
    was a NaN in the gradients, not an unknown one: it is handed on as Inf, which detectors read as not finite.
    """
    table = pq.read_table(path)
    by_trial: dict[str, list[Step]] = {}
    names = ("trial", "step", "loss", "lr", "unigram_loss", "grad_norm", "clipped")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    for trial, step, loss, lr, unigram_loss, norm, clipped in rows:
        known = math.inf if math.isnan(norm) else norm
        by_trial.setdefault(trial, []).append(Step(step, loss, lr, unigram_loss, known, clipped))
    return by_trial, float((table.schema.metadata or {})[b"unigram_entropy"])


def read_labels(path: Path, curves: Mapping[str, Sequence[Step]]) -> list[Label]:
    """The labels of curves, one each.

    Raises:
        ValueError: naming file and line, if a label is not one, not of these curves, or missing.
        OSError: if the file cannot be read.
    """
    labels: dict[str, Label] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{path}: no column {', '.join(missing)}; its columns must be {','.join(COLUMNS)}")
        for row in reader:
            try:
                label = _label({column: row[column] or "" for column in COLUMNS}, curves)
                if label.trial in labels:
                    raise ValueError(f"{label.trial} has a label already")
            except ValueError as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
            labels[label.trial] = label
    without = sorted(set(curves) - set(labels))
    if without:
        raise ValueError(f"{path}: no label of {', '.join(without)}; every curve is scored, or none is")
    return list(labels.values())


def _label(row: Mapping[str, str], curves: Mapping[str, Sequence[Step]]) -> Label:
    siblings = tuple(filter(None, row["siblings"].split(";")))
    for trial in (row["trial"], *siblings):
        if trial not in curves:
            raise ValueError(f"no curve of a trial {trial!r}")
    verdict = Status(row["verdict"])
    if row["part"] not in PARTS or verdict not in _VERDICTS:
        raise ValueError(f"part is one of {', '.join(PARTS)}, verdict one of {', '.join(_VERDICTS)}")
    mode = Mode(row["mode"]) if row["mode"] else None
    if (mode is not None) != (verdict is Status.DIVERGED):
        raise ValueError(f"{verdict} with mode {row['mode']!r}: a mode goes with diverged, and with nothing else")
    good = _interval(row["good_lo"], row["good_hi"], curves[row["trial"]])
    left = verdict in (Status.UNCONFIRMED, Status.DIVERGED) and mode is not Mode.STAGNATION
    if (good is not None) != left:
        raise ValueError(f"{verdict} {row['mode']} {'without' if left else 'with'} an interval of the last good step")
    return Label(
        row["trial"], row["part"], verdict, mode, good, siblings, row["first"], row["second"], row["decided_by"]
    )


def _interval(low: str, high: str, steps: Sequence[Step]) -> tuple[int, int] | None:
    if not low and not high:
        return None
    first, last = int(low), int(high)
    if not steps[0].step - 1 <= first <= last <= steps[-1].step:  # the step before the first: nothing was good
        raise ValueError(f"the interval {first} to {last} is none of steps {steps[0].step} to {steps[-1].step}")
    return first, last
