"""What a plan amounts to before it runs: trials a cell, what is already done, parameters, tokens, time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from keel_lab.architecture import CorpusFacts
from keel_lab.columns import aligned
from keel_lab.counted import counted
from keel_lab.plan.estimate import StepSeconds, makespan, seconds
from keel_lab.plan.planned import Cell, Label, Plan, PlannedTrial, Role
from keel_lab.settings import ALONE, SiblingSettings
from keel_lab.spec.label import duration_text, label_text
from keel_lab.trial import Trial


@dataclass(frozen=True)
class CellSummary:
    """One cell of a plan.

    Attributes:
        trials: its distinct trials, references included; `done` of them are in storage already.
        references: how many of them are there for a ramp to be judged beside.
        parameters: exact trainable parameters of its model.
        steps, tokens: of one trial.
        seconds: estimated for one trial; None if no step of that kind was ever measured.
    """

    cell: Cell
    trials: int
    references: int
    done: int
    parameters: int
    steps: int
    tokens: int
    seconds: float | None


@dataclass(frozen=True)
class Summary:
    """A plan in numbers.

    Attributes:
        done: trials that are in storage already and will be reused.
        steps, tokens: of the trials that are left.
        seconds: estimated wall time of the trials left whose step cost is known, on `slots` at once; None if there are
            trials left and no cost is known.
        unknown: trials left whose step cost is not known.
        siblings: what runs beside each ramp; forks are not counted, since they depend on what becomes of it.
    """

    name: str
    protocol: str
    facts: CorpusFacts
    cells: tuple[CellSummary, ...]
    trials: int
    collapsed: int
    done: int
    steps: int
    tokens: int
    seconds: float | None
    unknown: int
    slots: int
    siblings: SiblingSettings

    @property
    def references(self) -> int:
        """Trials that are there for a ramp to be judged beside."""
        return sum(cell.references for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """What `keel-lab plan --json` prints; `seconds` is null where no cost was measured."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            "corpus": {
                "source": self.facts.source,
                "tokenizer": self.facts.tokenizer,
                "fingerprint": self.facts.fingerprint,
                "tokens": self.facts.tokens,
                "vocab": self.facts.vocab,
            },
            "trials": self.trials,
            "references": self.references,
            "forks_after_each_ramp": self._forks(),
            "collapsed": self.collapsed,
            "done": self.done,
            "left": {"trials": self.trials - self.done, "steps": self.steps, "tokens": self.tokens},
            "estimate": {"seconds": self.seconds, "trials_of_unknown_cost": self.unknown, "slots": self.slots},
            "cells": [_cell_json(cell) for cell in self.cells],
        }

    def text(self) -> str:
        """What `keel-lab plan` prints: plain text, aligned, without a trailing newline."""
        left = self.trials - self.done
        duplicates = f"{counted(self.collapsed, 'duplicate')} collapsed" if self.collapsed else "no duplicates"
        reused = f"{self.done:,} (reused from storage, not run again)" if self.done else "none"
        facts = [
            ("sweep", f"{self.name} (protocol {self.protocol})"),
            ("trials", f"{self.trials:,} in {counted(len(self.cells), 'cell')}; {duplicates}"),
            *([("siblings", self._siblings())] if self.references or self._forks() else []),
            ("already done", reused),
            ("left to run", f"{counted(left, 'trial')}, {self.steps:,} steps, {self.tokens:,} tokens"),
            ("corpus", self._corpus()),
            ("estimated time", self._time(left)),
        ]
        width = max(len(name) for name, _ in facts)
        return "\n".join([_table(self.cells), "", *(f"{name:<{width}}  {value}" for name, value in facts)])

    def _forks(self) -> int:
        """How many forks follow a ramp at most."""
        return self.siblings.holds + 2 * self.siblings.reversibility

    def _siblings(self) -> str:
        references = [f"{counted(self.references, 'reference')} of these"] if self.references else []
        forks = self._forks()
        return "; ".join(
            [*references, *([f"after each ramp up to {counted(forks, 'fork')}, not counted here"] if forks else [])]
        )

    def _corpus(self) -> str:
        if not self.facts.vocab:
            return "none"
        return f"{self.facts.source}: {self.facts.tokens:,} training tokens, {self.facts.vocab:,} ids"

    def _time(self, left: int) -> str:
        if not left:
            return "nothing to run"
        at_once = f"{counted(self.slots, 'trial')} at once"
        if self.seconds is None:
            return "unknown (no step of these models was measured yet)"
        if self.unknown:
            known = f"known for {left - self.unknown} of {left} trials, unknown for {self.unknown}"
            return f"at least {duration_text(self.seconds)}, {at_once}: {known}"
        return f"{duration_text(self.seconds)}, {at_once}"


def summarise(
    plan: Plan,
    facts: CorpusFacts,
    done: Collection[str],
    step_seconds: StepSeconds,
    slots: int,
    *,
    name: str,
    protocol: str,
    siblings: SiblingSettings = ALONE,
) -> Summary:
    """Counts a plan.

    Args:
        plan: the distinct trials.
        facts: the corpus they train on.
        done: ids of trials that are in storage.
        step_seconds: seconds a step of a trial takes, as last measured, or None.
        slots: how many trials run at once.
        name: of the sweep.
        protocol: of the sweep.
        siblings: of the sweep.
    """
    left = [planned for planned in plan.trials if planned.trial.id not in done]
    costs = [seconds(planned.trial, step_seconds) for planned in left]
    known = [cost for cost in costs if cost is not None]
    return Summary(
        name=name,
        protocol=protocol,
        facts=facts,
        cells=tuple(_cells(plan, done, step_seconds)),
        trials=len(plan.trials),
        collapsed=plan.collapsed,
        done=len(plan.trials) - len(left),
        steps=sum(planned.trial.schedule.steps for planned in left),
        tokens=sum(_tokens(planned.trial) for planned in left),
        seconds=makespan(known, slots) if known or not left else None,
        unknown=len(costs) - len(known),
        slots=slots,
        siblings=siblings,
    )


def _cells(plan: Plan, done: Collection[str], step_seconds: StepSeconds) -> Iterable[CellSummary]:
    by_cell: dict[Cell, list[PlannedTrial]] = {}
    for planned in plan.trials:
        by_cell.setdefault(planned.cell, []).append(planned)
    for cell, members in by_cell.items():
        trial = next((one for one in members if one.role is Role.TRIAL), members[0]).trial
        yield CellSummary(
            cell=cell,
            trials=len(members),
            references=sum(planned.role is Role.REFERENCE for planned in members),
            done=sum(planned.trial.id in done for planned in members),
            parameters=members[0].parameters,
            steps=trial.schedule.steps,
            tokens=_tokens(trial),
            seconds=seconds(trial, step_seconds),
        )


def _tokens(trial: Trial) -> int:
    """Tokens of a whole trial; 0 for one without a corpus."""
    return trial.tokens_per_step * trial.schedule.steps if trial.data is not None else 0


def _cell_json(summary: CellSummary) -> dict[str, Any]:
    return {
        "architecture": summary.cell.architecture,
        "blocks": summary.cell.blocks,
        "sublayers": 2 * summary.cell.blocks,
        "axes": dict(summary.cell.axes),
        "trials": summary.trials,
        "references": summary.references,
        "done": summary.done,
        "parameters": summary.parameters or None,
        "steps": summary.steps,
        "tokens": summary.tokens,
        "seconds": summary.seconds,
    }


def _table(cells: Iterable[CellSummary]) -> str:
    """One line a cell; text to the left, numbers to the right, axes as columns of their own."""
    rows = list(cells)
    axes = list(dict.fromkeys(name for row in rows for name, _ in row.cell.axes))
    heads = ["architecture", "blocks", *axes, "trials", "done", "parameters", "steps", "tokens", "a trial takes"]
    lines = [heads] + [_line(row, axes) for row in rows]
    left = {0, *range(2, 2 + len(axes))}
    return aligned(lines, right=set(range(len(heads))) - left)


def _line(row: CellSummary, axes: Iterable[str]) -> list[str]:
    values: dict[str, Label] = dict(row.cell.axes)
    return [
        row.cell.architecture,
        str(row.cell.blocks),
        *(label_text(values[name]) if name in values else "-" for name in axes),
        str(row.trials),
        str(row.done),
        f"{row.parameters:,}" if row.parameters else "unknown",
        f"{row.steps:,}",
        f"{row.tokens:,}",
        "unknown" if row.seconds is None else duration_text(row.seconds),
    ]
