"""From a sweep file's tree to typed values: every section, every problem, in one walk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keel_lab.architecture import Catalogue
from keel_lab.errors import Problem
from keel_lab.own_trainer import DEFAULT
from keel_lab.spec import axis, fields, search_sources
from keel_lab.spec.axis import Values
from keel_lab.spec.grid import GridReader
from keel_lab.spec.head import Head
from keel_lab.spec.kind import nearest
from keel_lab.spec.lr_choice import is_choice
from keel_lab.spec.node import Node
from keel_lab.spec.search_reading import SearchReader

FIXED = {
    "data": "one corpus a sweep: it cannot vary",
    "siblings": "it cannot vary: it says what is run beside every trial",
    "divergence": "it cannot vary: thresholds are no part of a trial",
    "resources": "it cannot vary: resources are no part of a trial",
    "budget": "it cannot vary: it bounds the whole sweep",
}


class Reading:
    """What a sweep file says, typed, key by key.

    Attributes:
        problems: everything wrong so far.
        head: name, question and protocol.
        protocol: the head's.
        grid: axes and options.
        values: the given keys of `model`, `train`, `ramp` or `schedule`, dotted; the grid's are not among them.
        fixed: given keys of the sections that cannot vary, by section.
        preset: the given ramp preset.
        search: reader of the section `search`; None under another protocol.
    """

    def __init__(self, root: Node, catalogue: Catalogue, problems: list[Problem], trainer: str = DEFAULT) -> None:
        self.problems = problems
        self.root = root
        self.entries: Mapping[str, Node] = root.mapping or {}
        self.values: dict[str, Values] = {}
        self.fixed: dict[str, dict[str, Any]] = {}
        self.preset: str | None = None
        self.head = Head(root, problems)
        self.protocol = self.head.protocol
        self.grid = GridReader(catalogue, self.protocol, problems)
        if grid := self._section("grid"):
            self.grid.read(grid, grid.place)
        if own := self._section("per_architecture"):
            self.grid.read_own(own)
        for name in ("model", "train", "ramp", "schedule"):
            self._varying(name)
        for name in FIXED:
            self._constant(name)
        self.search = self._search(trainer)
        self._unknown_keys("", self.entries, fields.TOP)
        self._merge()

    def given(self, key: str) -> Values | None:
        """The values of a dotted key, from the grid or from its section; of a parameter of a search, its limits."""
        searched = self.search.space.limits.get(key) if self.search is not None else None
        return searched or self.grid.axes.get(key) or self.values.get(key)

    def own(self, architecture: str, option: str) -> Values | None:
        """The values of an architecture's option, as given for it alone or for all; of a parameter, its limits."""
        key = f"options.{option}"
        alone = self.search.space.own_limits.get((architecture, key)) if self.search is not None else None
        return alone or self.grid.own.get(architecture, {}).get(option) or self.given(key)

    def all_values(self) -> list[Values]:
        """Everything given that may vary."""
        own = [values for options in self.grid.own.values() for values in options.values()]
        return [*self.grid.axes.values(), *self.values.values(), *own]

    def default(self, key: str) -> Any:
        """The value of a dotted key that is not given; None if it must be."""
        section, word = key.split(".")
        preset = fields.PRESETS.get(self.preset or "", {}) if section == "ramp" else {}
        return preset.get(word, fields.defaults(section).get(word))

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self.problems.append(Problem(node.place, key, found, allowed, near))

    def _section(self, name: str) -> Node | None:
        """The mapping of a section; an absent or empty one is {}."""
        node = self.entries.get(name)
        if node is None or node.value is None:
            return Node({}, "", (node or self.root).place)
        if node.mapping is None:
            self._refuse(node, name, node.found(), f"{name} holds keys: write {name}: {{key: value}}")
            return None
        return node

    def _varying(self, name: str) -> None:
        """`model`, `train`, and the section of the protocol: a list is an axis."""
        given = self.entries.get(name)
        sections = fields.PROTOCOLS[self.protocol]
        if name in fields.SCHEDULES and name not in sections:
            if given is not None and given.value is not None and self.head.protocol_is_known:
                wanted = " and ".join(sections)
                allowed = (
                    f"protocol {self.protocol} has {wanted} instead: remove {name} (on the command line {name}=null)"
                )
                self._refuse(given, name, f"a section of protocol {'ramp' if name == 'ramp' else 'grid'}", allowed)
            return
        node = self._section(name)
        entries = dict(node.mapping or {}) if node else {}
        if name == "ramp":
            self._preset(entries.pop("preset", None))
        kinds = fields.section(name)
        self._unknown_keys(name, entries, [*kinds, *(["preset"] if name == "ramp" else [])])
        for key, child in entries.items():
            if name == "schedule" and key == "lr" and is_choice(child):
                self._refuse(
                    child, "schedule.lr", child.found(), "LRs of another sweep stand under grid: move it there"
                )
            elif key in kinds:
                self.values[f"{name}.{key}"] = axis.read(f"{name}.{key}", child, kinds[key], self.problems)

    def _preset(self, node: Node | None) -> None:
        if node is None or node.value is None:
            return
        if isinstance(node.value, str) and node.value in fields.PRESETS:
            self.preset = node.value
        else:
            near = nearest(str(node.value), fields.PRESETS)
            self._refuse(node, "ramp.preset", node.found(), f"must be one of {', '.join(fields.PRESETS)}", near)

    def _constant(self, name: str) -> None:
        node = self._section(name)
        entries = (node.mapping or {}) if node else {}
        if name == "siblings" and entries and node and self.protocol != "ramp" and self.head.protocol_is_known:
            why = (
                "the trials of a cell are each other's siblings"
                if self.protocol == "grid"
                else "its trials stand alone"
            )
            self._refuse(
                node, name, "a section of protocol ramp", f"protocol {self.protocol} has none: {why}: remove it"
            )
        kinds = fields.section(name)
        self._unknown_keys(name, entries, kinds)
        found = self.fixed.setdefault(name, {})
        for key, child in entries.items():
            if key in kinds:
                values = axis.read(f"{name}.{key}", child, kinds[key], self.problems, single=FIXED[name]).values
                if values:
                    found[key] = values[0]
        if name == "data" and "corpus" in entries and "text" in entries:
            self._refuse(
                entries["text"], "data.text", "text beside corpus", "a sweep trains on one of the two: remove one"
            )

    def _search(self, trainer: str) -> SearchReader | None:
        given = self.entries.get("search")
        if self.protocol == "search" and self.head.protocol_is_known:
            if given is None or given.value is None:
                allowed = (
                    "required by protocol search: {space: {lr: {log_uniform: [1e-4, 1e-1]}}, objectives: val_loss}"
                )
                self._refuse(given or self.root, "search", "nothing", allowed)
                return None
            node = self._section("search")
            return None if node is None else SearchReader(node, self.grid, self.protocol, trainer, self.problems)
        if given is not None and given.value is not None and self.head.protocol_is_known:
            allowed = f"protocol {self.protocol} has none: remove it (on the command line search=null)"
            self._refuse(given, "search", "a section of protocol search", allowed)
        return None

    def _unknown_keys(self, section: str, entries: Mapping[str, Node], allowed: Iterable[str]) -> None:
        known = list(allowed)
        for key, node in entries.items():
            if key not in known:
                path = f"{section}.{key}" if section else key
                near = self._elsewhere(key) or nearest(key, known)
                self._refuse(node, path, "an unknown key", f"allowed here: {', '.join(known)}", near)

    def _elsewhere(self, word: str) -> str | None:
        """Where a key belongs that stands in the wrong section."""
        if word in ("architecture", "depth", "lr", *fields.SEEDS, *self.grid.option_names()):
            return f"grid.{word}"
        if word in fields.DEPTHS:
            return f"grid.depth.{word}"
        homes = [name for name in (*fields.axis_sections(self.protocol), *FIXED) if word in fields.section(name)]
        return f"{homes[0]}.{word}" if homes else None

    def _merge(self) -> None:
        """One source a key: an axis of the grid replaces its section's constant; anything else twice is refused."""
        for key, values in self.grid.axes.items():
            section = self.values.pop(key, None)
            if section is None or (values.listed and not section.listed) or values.values == section.values:
                continue
            allowed = f"{section.key} says {section.node.found()}: keep one of the two"
            self._refuse(values.node, values.key, values.node.found(), allowed)
        self.grid.check_options()
        if self.search is not None:
            self.problems += search_sources.problems(self, self.search)
        pair = [found for key in ("warmup", "warmup_steps") if (found := self.given(f"schedule.{key}"))]
        if len(pair) > 1:
            self._refuse(pair[0].node, pair[0].key, f"warmup beside {pair[1].key}", "give one of the two")
        needs_lr = self.protocol == "grid" and self.head.protocol_is_known
        grid = self.entries.get("grid") or self.root
        readable = grid.value is None or grid.mapping is not None
        if any(is_choice(node) for key, node in (grid.mapping or {}).items() if key in ("lr", "schedule.lr")):
            self._only_choice()
        elif needs_lr and readable and self.given("schedule.lr") is None:
            self._refuse(grid, "grid.lr", "nothing", "protocol grid needs learning rates under grid: lr: [1e-3, 3e-3]")

    def _only_choice(self) -> None:
        """Under `lr: {from: ...}` the section's constant does not count; LRs in a list would be a second source."""
        section = self.values.pop("schedule.lr", None)
        if section is not None and section.listed:
            self._refuse(
                section.node, section.key, section.node.found(), "grid.lr says from where: keep one of the two"
            )


def sort_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Each once, from the top of the file down, the command line last."""

    def line(problem: Problem) -> tuple[bool, int]:
        number = re.search(r":(\d+)$", problem.place)
        on_command_line = problem.place.startswith("command line")
        return on_command_line, int(number[1]) if number and not on_command_line else 0

    return sorted(dict.fromkeys(problems), key=line)
