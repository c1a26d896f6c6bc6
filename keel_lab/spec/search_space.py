"""Reads `search.space`: each parameter's key, and the values that it may take, within the key's own bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel_lab.errors import Problem
from keel_lab.spec import axis, fields, kind, rule
from keel_lab.spec.axis import Values
from keel_lab.spec.domain import Domain
from keel_lab.spec.grid import GridReader
from keel_lab.spec.kind import Kind, nearest
from keel_lab.spec.node import Node
from keel_lab.spec.search import Parameter

FORMS = ("uniform", "log_uniform", "power_of_L", "choice")
SHAPES = "{uniform: [lo, hi]}, {log_uniform: [lo, hi]}, {power_of_L: [lo, hi]} for L^lo to L^hi, or {choice: [...]}"
OWN = "per_architecture"
FACTORS = ("width", "heads", "kv_heads", "batch_size", "accumulate", "experts", "top_k")  # must fit each other
MOST = 64  # values of a range that are each checked against the other keys


class SpaceReader:
    """Reads the space; what is wrong is added to `problems`.

    Attributes:
        parameters: those without a problem.
        limits: by key, the extreme values (all of a choice), for the checks across keys; of one architecture's own
            parameters, by architecture and key.
    """

    def __init__(self, grid: GridReader, protocol: str, problems: list[Problem]) -> None:
        self._grid, self._protocol, self._problems = grid, protocol, problems
        self.parameters: list[Parameter] = []
        self.limits: dict[str, Values] = {}
        self.own_limits: dict[tuple[str, str], Values] = {}

    def read(self, node: Node) -> None:
        """Reads every parameter."""
        entries = dict(node.mapping or {})
        own = entries.pop(OWN, None)
        for word, given in entries.items():
            self._parameter(word, given, f"search.space.{word}", None)
        if own is not None and own.mapping is None:
            allowed = "must be {ARCHITECTURE: {parameter: range}}"
            self._refuse(own, f"search.space.{OWN}", own.found(), allowed)
        for architecture, given in ((own.mapping or {}) if own else {}).items():
            path = f"search.space.{OWN}.{architecture}"
            if architecture not in self._grid.declarations():
                known = self._grid.declarations()
                allowed = f"must be an architecture of the grid: {', '.join(known)}"
                self._refuse(given, path, "an architecture that the grid lacks", allowed, nearest(architecture, known))
                continue
            if given.mapping is None:
                self._refuse(given, path, given.found(), "must be {parameter: range}, as in the space itself")
            for word, inner in (given.mapping or {}).items():
                self._parameter(word, inner, f"{path}.{word}", architecture)
        if not entries and not (own and own.mapping):
            allowed = (
                f"a search needs at least one parameter, such as lr: {{log_uniform: [1e-4, 1e-1]}}; forms: {SHAPES}"
            )
            self._refuse(node, "search.space", "an empty space", allowed)

    def _parameter(self, word: str, node: Node, path: str, architecture: str | None) -> None:
        meant = fields.candidates(word, self._protocol, self._grid.option_names())
        if len(meant) != 1:
            self._no_such(word, node, path, meant)
            return
        wanted = self._kind(meant[0], node, path, architecture)
        if wanted is None:
            return
        before = len(self._problems)
        domain, items = self._domain(node, path, wanted, meant[0])
        if domain is None or len(self._problems) > before:
            return
        name = self._name(meant[0]) if architecture is None else f"{architecture}.{self._name(meant[0])}"
        if any(one.name == name for one in self.parameters):
            self._refuse(node, path, "a second time", f"{name} is searched already: keep one")
            return
        self.parameters.append(Parameter(meant[0], name, domain, architecture))
        limits = Values(path, node, tuple(items), True)
        if architecture is None:
            self.limits[meant[0]] = limits
        else:
            self.own_limits[architecture, meant[0]] = limits

    def _name(self, key: str) -> str:
        tail = key.split(".", 1)[1]
        return tail if fields.candidates(tail, self._protocol, self._grid.option_names()) == [key] else key

    def _no_such(self, word: str, node: Node, path: str, meant: list[str]) -> None:
        if meant:
            self._refuse(node, path, "a key with two meanings", f"write {' or '.join(meant)}")
        elif word in ("architecture", "depth", *fields.DEPTHS, *fields.SEEDS):
            self._refuse(
                node, path, "a key of the grid", f"list {word} under grid; search.per: all searches its values jointly"
            )
        else:
            options = self._grid.option_names()
            bare = [key.split(".")[1] for key in fields.dotted(self._protocol)]
            known = ["lr", *options, *bare, *fields.dotted(self._protocol)]
            sections = ", ".join(fields.axis_sections(self._protocol))
            allowed = f"a parameter is lr, {', '.join(options)}, or a key of {sections}"
            near = "lr" if word == "learning_rate" else nearest(word, known)
            self._refuse(node, path, "an unknown parameter", allowed, near)

    def _kind(self, key: str, node: Node, path: str, architecture: str | None) -> Kind | None:
        section, tail = key.split(".", 1)
        if section != "options":
            return fields.section(section)[tail]
        declared = self._grid.declarations()
        holders = {name: one for name, one in declared.items() if tail in one.options and architecture in (None, name)}
        if not holders:
            having = ", ".join(declared) if architecture is None else architecture
            self._refuse(node, path, "an option that no such architecture of this sweep has", f"the grid has {having}")
            return None
        return kind.of_option(next(iter(holders.values())).options[tail])

    def _domain(self, node: Node, path: str, wanted: Kind, key: str) -> tuple[Domain | None, list[tuple[Any, Node]]]:
        entries = dict(node.mapping or {})
        if node.items is not None and not (wanted.pair and not any(one.items is not None for one in node.items)):
            return self._choice(path, node, wanted)
        if entries.keys() & set(axis.RANGES):
            return self._choice(path, node, wanted)
        step = entries.pop("step", None)
        if len(entries) != 1 or (form := next(iter(entries))) not in FORMS:
            near = nearest(next(iter(entries)), FORMS) if len(entries) == 1 else None
            self._refuse(node, path, node.found(), f"must be {SHAPES}", near)
            return None, []
        if form == "choice":
            return self._choice(path, entries[form], wanted)
        return self._range(path, node, form, entries[form], step, wanted, key)

    def _choice(self, path: str, node: Node, wanted: Kind) -> tuple[Domain | None, list[tuple[Any, Node]]]:
        values = axis.read(path, node, wanted, self._problems)
        found = tuple(tuple(one) if isinstance(one, list) else one for one in values.values)
        return Domain("choice", values=found), list(values.items)

    def _range(
        self, path: str, node: Node, form: str, bounds: Node, step: Node | None, wanted: Kind, key: str
    ) -> tuple[Domain | None, list[tuple[Any, Node]]]:
        def refuse(found: str, allowed: str) -> tuple[None, list[tuple[Any, Node]]]:
            self._refuse(node, path, found, allowed)
            return None, []

        ends = bounds.items
        if not wanted.number and wanted is not kind.PERCENTAGE:
            return refuse(node.found(), f"{wanted.allowed}: no range is possible here; write {{choice: [...]}}")
        if ends is None or len(ends) != 2:
            return refuse(node.found(), f"a range is {{{form}: [lo, hi]}}")
        if form == "power_of_L" and not key.startswith("options."):
            return refuse(node.found(), "power_of_L is for options that take rules in L, such as alpha")
        low, high = (self._bound(path, end, form, wanted) for end in ends)
        if low is None or high is None:
            return None, []
        integer = wanted.integer and not isinstance(low, str)
        domain = Domain(form, low, high, None if step is None else step.value, integer=integer)  # type: ignore[arg-type]
        if said := self._inverted(domain):
            return refuse(node.found(), said)
        if step is not None and said_step(domain, step):
            return refuse(f"step {step.found()}", said_step(domain, step))
        checked = [self._converted(end, value, form, wanted) for end, value in zip(ends, (low, high), strict=True)]
        if integer and key.split(".")[1] in FACTORS:
            return self._whole(path, node, domain, checked)
        return domain, checked

    def _whole(
        self, path: str, node: Node, domain: Domain, ends: list[tuple[Any, Node]]
    ) -> tuple[Domain | None, list[tuple[Any, Node]]]:
        """All values of a range that must fit other keys: not only its ends have to."""
        inside = range(int(domain.low or 0), int(domain.high or 0) + 1, int(domain.step or 1))
        if len(inside) > MOST:
            self._refuse(node, path, node.found(), f"{len(inside)} values that must fit other keys: give a choice")
            return None, []
        return domain, [(value, Node(value, str(value), ends[0][1].place)) for value in inside]

    def _bound(self, path: str, end: Node, form: str, wanted: Kind) -> Any:
        value = end.value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if form == "power_of_L":
            if number and abs(float(value)) <= 10:  # type: ignore[arg-type]
                return float(value)  # type: ignore[arg-type]
            self._refuse(end, path, end.found(), "an exponent of L is a number from -10 to 10, such as 0.5")
            return None
        try:
            found = wanted.convert(value)
        except ValueError as error:
            said = str(error) if str(error).startswith("must ") else f"{error}; {wanted.allowed}"
            self._refuse(end, path, end.found(), said if isinstance(error, rule.RuleError) else wanted.allowed)
            return None
        if not number and isinstance(found, str) and wanted is not kind.PERCENTAGE and "L" not in found:
            self._refuse(end, path, end.found(), "a range is between numbers: {choice: [...]} has words")
            return None
        return float(found) if isinstance(found, int) and not wanted.integer else found

    def _converted(self, end: Node, value: Any, form: str, wanted: Kind) -> tuple[Any, Node]:
        if form != "power_of_L":
            return value, end
        return wanted.convert(f"L^{value:g}" if value else 1.0), Node(end.value, f"L^{end.text}", end.place)

    def _inverted(self, domain: Domain) -> str:
        """What is wrong with the bounds at a depth of the grid, or nothing."""
        depths = self._grid.axes["blocks"].values if "blocks" in self._grid.axes else (1,)
        for blocks in depths:
            try:
                low, high = domain.bounds(2 * blocks)
            except rule.RuleError as error:
                return str(error)
            where = f" (at L = {2 * blocks}: {low:g} and {high:g})" if domain.depends_on_depth else ""
            if low >= high:
                return f"lo must be below hi{where}"
            if domain.form == "log_uniform" and low <= 0:
                return f"lo of a log_uniform range must be above 0{where}"
        return ""

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self._problems.append(Problem(node.place, key, found, allowed, near))


def said_step(domain: Domain, step: Node) -> str:
    """What is wrong with a step, or nothing."""
    value = step.value
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if domain.form != "uniform" or not good:
        return "a step is a number above 0, of a uniform range"
    if domain.integer and not isinstance(value, int):
        return "whole numbers have a whole step"
    return ""


def own_of(limits: Mapping[tuple[str, str], Values], architecture: str, option: str) -> Values | None:
    """The limits of one architecture's own option."""
    return limits.get((architecture, f"options.{option}"))
