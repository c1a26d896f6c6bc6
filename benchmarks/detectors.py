"""Detectors of divergence on the labelled corpus of real runs: ours, and rules that other tools publish.

Run: python benchmarks/detectors.py [--part tune] [--list [DETECTOR ...]] [--json]

docs/detectors.md says how to read what is printed. The same curves and labels print the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.corpus import CURVES, LABELS, PARTS, Case, load_cases
from benchmarks.detector_scores import Answer, Answered, Scores, faults, lr_ratio, onset_off, score
from benchmarks.detector_tables import agreement, aligned, described, fault_table, mode_table, verdict_table
from benchmarks.published_rules import RULES, Rule, first_alarm
from keel_lab.detect.agreement import judge_curve
from keel_lab.detect.paired import paired_loss
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.detect.whole import is_broken, judge_whole

WITHOUT_H1 = frozenset({Mode.NON_FINITE, Mode.IRRECOVERABLE})
ALONE = frozenset(Mode) - {Mode.DEGRADATION}


@dataclass(frozen=True)
class Detector:
    """A detector, the modes it can name, and whether it waits for a rise to be regained or confirmed."""

    judge: Callable[[Case], Answer]
    names: frozenset[Mode]
    confirms: bool

    def faults(self, one: Answered) -> list[str]:
        """What is wrong with an answer of this detector, in words."""
        return faults(one, self.names, confirms=self.confirms)


Answers = Mapping[str, Sequence[Answered]]
"""By detector."""


def detectors(rules_on: str = "raw") -> dict[str, Detector]:
    """All of them by name; published rules read the loss as it is (`raw`) or the `paired` loss."""
    ours = {
        "streaming": Detector(lambda case: _streaming(case, case.unigram_entropy), ALONE, True),
        "whole": Detector(lambda case: _answer(judge_whole(case.steps, None, case.unigram_entropy)), ALONE, True),
        "streaming_siblings": Detector(_beside_siblings, frozenset(Mode), True),
        "streaming_raw": Detector(lambda case: _streaming(case, None), WITHOUT_H1, True),
    }
    return ours | {name: _published(make, rules_on) for name, make in RULES.items()}


def _streaming(case: Case, unigram_entropy: float | None) -> Answer:
    detector = StreamingDetector(Thresholds(), unigram_entropy)
    for step in case.steps:
        detector.update(step)
    return _answer(detector.verdict())


def _beside_siblings(case: Case) -> Answer:
    return _answer(judge_curve(case.steps, None, case.unigram_entropy, case.siblings))


def _answer(verdict: Verdict) -> Answer:
    return Answer(verdict.status, verdict.mode, verdict.last_good_step, verdict.last_good_lr)


def _published(make: Callable[[], Rule], rules_on: str) -> Detector:
    def judge(case: Case) -> Answer:
        h1 = case.unigram_entropy if rules_on == "paired" else None
        losses = ((paired_loss(step.loss, step.unigram_loss, h1), is_broken(step)) for step in case.steps)
        alarm = first_alarm(make(), losses)
        if alarm is None:
            return Answer(Status.HEALTHY, None, case.steps[-1].step, case.steps[-1].lr)
        mode = Mode.NON_FINITE if alarm.non_finite else None
        good = case.steps[alarm.sample - 1] if alarm.sample else None
        return Answer(Status.DIVERGED, mode, good.step if good else None, good.lr if good else None)

    return Detector(judge, frozenset({Mode.NON_FINITE}), False)


def main() -> int:
    """See the module."""
    arguments = _arguments()
    try:
        cases = load_cases(arguments.curves, arguments.labels)
    except (OSError, ValueError) as error:
        print(f"detectors: {error}", file=sys.stderr)
        return 2
    asked = arguments.part or list(PARTS)
    cases = [case for case in cases if case.label.part in asked]
    known = detectors(arguments.rules_on)
    answers = {name: [Answered(case, one.judge(case)) for case in cases] for name, one in known.items()}
    parts = {part: {part} for part in asked} | ({"all": set(asked)} if len(asked) > 1 else {})
    if arguments.json:
        print(json.dumps(_as_json(parts, answers, known), indent=1, allow_nan=False))
        return 0
    for title, part in parts.items():
        scores = _scores(part, answers, known)
        print(described(title, [case.label for case in cases if case.label.part in part]))
        print(f"\n{aligned(verdict_table(scores), 1)}\n\n{aligned(mode_table(scores), 1)}\n")
    print("Counts of curves; without intervals, for curves of one sweep share data and seeds and are not independent.")
    if arguments.list is not None:
        listed = {name: answers[name] for name in arguments.list or known}
        wrong = [(name, one, known[name].faults(one)) for name, answered in listed.items() for one in answered]
        print("\n" + aligned(fault_table(row for row in wrong if row[2])))
    return 0


def _scores(part: set[str], answers: Answers, known: Mapping[str, Detector]) -> dict[str, Scores]:
    return {
        name: score([one for one in answered if one.case.label.part in part], known[name].names)
        for name, answered in answers.items()
    }


def _as_json(parts: Mapping[str, set[str]], answers: Answers, known: Mapping[str, Detector]) -> dict[str, Any]:
    labels = [one.case.label for one in next(iter(answers.values()))]
    tables = {
        title: {
            "labels": agreement([label for label in labels if label.part in part]),
            "detectors": {name: asdict(one) for name, one in _scores(part, answers, known).items()},
        }
        for title, part in parts.items()
    }
    records = [
        {"detector": name, "trial": one.case.label.trial, "part": one.case.label.part}
        | {f"label_{key}": getattr(one.case.label, key) for key in ("verdict", "mode", "good")}
        | asdict(one.answer)
        | {"onset_off": onset_off(one), "max_lr_ratio": lr_ratio(one), "wrong": known[name].faults(one)}
        for name, answered in answers.items()
        for one in answered
    ]
    return {"tables": tables, "answers": records}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (default: each, and all)")
    parser.add_argument("--list", nargs="*", choices=list(detectors()), help="also every wrong answer")
    parser.add_argument("--json", action="store_true", help="everything, machine-readable")
    parser.add_argument("--rules-on", choices=("raw", "paired"), default="raw", help="the loss published rules read")
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--labels", type=Path, default=LABELS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
