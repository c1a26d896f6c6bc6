"""Checks across keys, for every combination of values; each distinct problem is named once, at the key to blame."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keel_lab.errors import Problem
from keel_lab.settings import MOE_ONLY, OPTIMIZER_ONLY, OPTIMIZERS
from keel_lab.spec import kind, quantity, rule
from keel_lab.spec.label import label_text
from keel_lab.spec.node import Node
from keel_lab.spec.reading import Reading

MOST_TRIALS = 100_000

_Pool = Sequence[tuple[Any, Node | None]]


def check(reading: Reading) -> list[Problem]:
    """Every problem that shows only when keys are seen together."""
    total = _size(reading)
    if total > MOST_TRIALS:
        longest = max(reading.all_values(), key=lambda values: len(values.items))
        allowed = f"a sweep has at most {MOST_TRIALS}: shorten an axis or split the sweep"
        return [Problem(longest.node.place, longest.key, f"the longest axis of {total} combinations", allowed)]
    checker = _Checker(reading)
    checker.shape()
    checker.schedule()
    checker.options()
    return list(checker.problems.values())


def _size(reading: Reading) -> int:
    """How many combinations there are, before duplicates collapse."""
    shared = [values for key, values in reading.grid.axes.items() if key != "architecture"] + [*reading.values.values()]
    own = [reading.grid.own.get(name, {}) for name in reading.grid.declarations()]
    each = [math.prod(max(1, len(values.items)) for values in options.values()) for options in own]
    return math.prod(max(1, len(values.items)) for values in shared) * max(1, sum(each))


class _Checker:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.problems: dict[tuple[str, str, str, str], Problem] = {}

    def combinations(self, *keys: str) -> Iterator[dict[str, tuple[Any, Node | None]]]:
        """Every combination of the values of dotted keys; none if one of them has no valid value."""
        yield from (dict(zip(keys, values, strict=True)) for values in itertools.product(*map(self._pool, keys)))

    def _pool(self, key: str) -> _Pool:
        given = self.reading.given(key)
        if given is not None:
            return given.items
        default = self.reading.default(key)
        return [] if default is None else [(default, None)]

    def blame(self, topic: str, values: Mapping[str, tuple[Any, Node | None]], remedies: Mapping[str, str]) -> None:
        """Adds a problem at one of the keys of `remedies`: on the command line, else an axis, else the first given."""
        given = {key: found for key in remedies if (found := self.reading.given(key)) is not None}
        if not given:
            return
        rank = {key: (not _overridden(found.node), not found.listed) for key, found in given.items()}
        key = min(given, key=lambda key: rank[key])
        value, node = values[key]
        place = node.place if node else given[key].node.place
        written = node.found() if node else label_text(value)
        problem = Problem(place, given[key].key, written, remedies[key])
        self.problems.setdefault((topic, place, problem.key, problem.found), problem)

    def shape(self) -> None:
        """Heads, widths and batches that divide each other."""
        width, heads, kv_heads = "model.width", "model.heads", "model.kv_heads"
        for values in self.combinations(width, heads):
            wide, many = values[width][0], values[heads][0]
            if wide % (2 * many):
                fitting = [str(count) for count in range(1, min(wide, 128) + 1) if wide % (2 * count) == 0]
                why = "a head has an even width, as RoPE turns pairs"
                choice = f"must be one of {', '.join(fitting)} at width {wide} ({why})" if fitting else ""
                multiple = f"must be a multiple of {2 * many} with {many} heads ({why})"
                self.blame(
                    "heads", values, {heads: choice or f"no number of heads fits the width {wide}", width: multiple}
                )
        for values in self.combinations(heads, kv_heads):
            many, groups = values[heads][0], values[kv_heads][0]
            if many % groups:
                fitting = [str(count) for count in range(1, min(many, 128) + 1) if many % count == 0]
                multiple = f"must be a multiple of kv_heads ({groups})"
                choice = f"must divide heads ({many}): one of {', '.join(fitting)}"
                self.blame("kv_heads", values, {kv_heads: choice, heads: multiple})
        self._experts()
        self._optimizers()
        batch, parts = "train.batch_size", "train.accumulate"
        for values in self.combinations(batch, parts):
            if values[batch][0] % values[parts][0]:
                choice = f"must divide batch_size ({values[batch][0]}), which counts sequences over all micro-batches"
                multiple = f"must be a multiple of accumulate ({values[parts][0]})"
                self.blame("accumulate", values, {parts: choice, batch: multiple})
            else:
                self._workers(values[batch][0], values[parts][0])

    def _workers(self, batch: int, accumulate: int) -> None:
        """That the workers of a trial can share a micro-batch."""
        workers = self.reading.fixed.get("resources", {}).get("workers", 1)
        if batch % (accumulate * workers):
            node = (self.reading.entries["resources"].mapping or {})["workers"]
            shared = f"batch_size ({batch}), of which each worker gets its part"
            allowed = f"workers x accumulate ({accumulate}) must divide {shared}"
            problem = Problem(node.place, "resources.workers", node.found(), allowed)
            self.problems.setdefault(("workers", "", "", ""), problem)

    def _experts(self) -> None:
        """A MoE's keys: that some FFN is one, if they are not at their defaults, as a resolved sweep writes them."""
        if all(ffn != "moe" for ffn, _ in self._pool("model.ffn")):
            for key in (f"model.{name}" for name in MOE_ONLY):
                given = self.reading.given(key)
                if given is not None and given.values != (self.reading.default(key),):
                    allowed = "no FFN of this sweep is a moe, to which alone it applies: set ffn: moe or remove it"
                    found = given.node.found()
                    self.problems.setdefault(("moe", key, "", ""), Problem(given.node.place, given.key, found, allowed))
            return
        top, many = "model.top_k", "model.experts"
        for values in self.combinations(top, many):
            if values[top][0] > values[many][0]:
                below = f"must be at most experts ({values[many][0]})"
                above = f"must be at least top_k ({values[top][0]})"
                self.blame("top_k", values, {top: below, many: above})

    def _optimizers(self) -> None:
        """Options of optimizers: that one of the sweep's has them, if they are not at their defaults."""
        chosen = [str(name) for name, _ in self._pool("train.optimizer")]
        for name in OPTIMIZER_ONLY:
            given = self.reading.given(f"train.{name}")
            having = [one for one, names in OPTIMIZERS.items() if name in names]
            if given is None or set(having) & set(chosen) or not chosen:
                continue
            if given.values != (self.reading.default(f"train.{name}"),):
                allowed = (
                    f"{' or '.join(chosen)} has no such option: remove it, or set optimizer: {' or '.join(having)}"
                )
                problem = Problem(given.node.place, given.key, given.node.found(), allowed)
                self.problems.setdefault(("optimizer", name, "", ""), problem)

    def schedule(self) -> None:
        """Learning rates that rise, and warm-ups that end."""
        if self.reading.protocol != "grid":
            self._ramp()
        if self.reading.protocol != "ramp":
            self._warmup()
            for values in self.combinations("schedule.shape", "schedule.lr", "schedule.final_lr"):
                rate, final = values["schedule.lr"][0], values["schedule.final_lr"][0]
                if values["schedule.shape"][0] == "cosine" and final > rate:
                    below = f"must be at most the learning rate {label_text(rate)}, from which the cosine falls"
                    above = f"must be at least final_lr ({label_text(final)}), to which the cosine falls"
                    self.blame("final_lr", values, {"schedule.final_lr": below, "schedule.lr": above})

    def _ramp(self) -> None:
        for values in self.combinations("ramp.shape", "ramp.from_lr", "ramp.peak_lr"):
            shape, start, peak = (values[f"ramp.{key}"][0] for key in ("shape", "from_lr", "peak_lr"))
            if peak <= start:
                above = f"must be above from_lr ({label_text(start)}): a ramp only rises"
                below = f"must be below peak_lr ({label_text(peak)}): a ramp only rises"
                self.blame("rises", values, {"ramp.peak_lr": above, "ramp.from_lr": below})
            elif shape == "log" and start == 0:
                remedy = "a log ramp cannot start at 0: give from_lr above 0, such as 1e-4, or shape: linear"
                self.blame("log", values, {"ramp.from_lr": remedy, "ramp.shape": remedy})
            elif shape == "log" and not math.isfinite(peak / start):
                remedy = "peak_lr / from_lr must be a finite number"
                self.blame("ratio", values, {"ramp.peak_lr": remedy, "ramp.from_lr": remedy})

    def _warmup(self) -> None:
        warmup = "schedule.warmup" if self.reading.given("schedule.warmup") else "schedule.warmup_steps"
        for values in self.combinations(warmup, "schedule.steps"):
            asked, steps = values[warmup][0], values["schedule.steps"][0]
            warm = quantity.warmup_steps(asked, steps) if isinstance(asked, str) else asked
            if warm >= steps:
                below = f"warm-up takes {warm} of {steps} steps: it must be shorter than steps"
                above = f"must be above the {warm} steps of warm-up; or give warmup: 10%"
                self.blame("warmup", values, {warmup: below, "schedule.steps": above})

    def options(self) -> None:
        """Rules, resolved at every depth of the sweep, within their bounds."""
        blocks = self.reading.grid.axes.get("blocks")
        for name, declaration in self.reading.grid.declarations().items():
            for option, known in declaration.options.items():
                own = self.reading.own(name, option)
                if known.kind != "rule" or own is None:
                    continue
                for (value, node), depth in itertools.product(own.items, blocks.values if blocks else ()):
                    if said := _out_of_bounds(known, value, 2 * depth):
                        problem = Problem(node.place, own.key, node.found(), said)
                        self.problems.setdefault(("option", node.place, own.key, problem.found), problem)


def _overridden(node: Node) -> bool:
    return node.place.startswith("command line")


def _out_of_bounds(known: Any, value: float | str, sublayers: int) -> str | None:
    try:
        number = rule.resolve(value, sublayers)
    except rule.RuleError as error:
        return str(error)
    if kind.within(known, number):
        return None
    where = f"is {label_text(number)} at L = {sublayers} sub-layers; " if isinstance(value, str) else ""
    return f"{where}must be a number{kind.bounds(known)}"
