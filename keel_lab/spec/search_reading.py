"""Reads the section `search`: objectives, sampler, pruner, points; the space is read by `search_space`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel_lab.errors import Problem
from keel_lab.spec import search_objectives
from keel_lab.spec.grid import GridReader
from keel_lab.spec.kind import nearest
from keel_lab.spec.node import Node
from keel_lab.spec.search import (
    ALL,
    CELL,
    Chosen,
    Remeasure,
    SearchSpec,
    WarmStart,
)
from keel_lab.spec.search_space import SpaceReader

KEYS = (
    "space",
    "objectives",
    "per",
    "sampler",
    "seed",
    "pruner",
    "rungs",
    "points",
    "remeasure",
    "warm_start",
    "parameters",
)
COUNTS = {"seed": (0, 2**31), "rungs": (1, 100), "points": (1, 10_000), "parameters": (1, 2**53)}


class SearchReader:
    """Reads the section; what is wrong is added to `problems`.

    Attributes:
        spec: what was read; None if something is wrong with it.
        space: the space's reader, with the limits of each parameter.
        node: the section.
    """

    def __init__(self, node: Node, grid: GridReader, protocol: str, trainer: str, problems: list[Problem]) -> None:
        self._entries: Mapping[str, Node] = node.mapping or {}
        self.node = self._node = node
        self._problems, self._grid = problems, grid
        before = len(problems)
        self.space = SpaceReader(grid, protocol, problems)
        for word, given in self._entries.items():
            if word not in KEYS:
                self._refuse(given, word, "an unknown key", f"allowed here: {', '.join(KEYS)}", nearest(word, KEYS))
        self._space()
        objectives = search_objectives.read(self._given("objectives"), self._node, trainer, problems)
        counts = {word: self._count(word) for word in COUNTS if self._given(word) is not None}
        per = self._per()
        sampler, pruner = self._chosen("sampler", "auto"), self._chosen("pruner", "none")
        remeasure, warm_start = self._remeasure(), self._warm_start()
        self.spec: SearchSpec | None = None
        if len(problems) == before:
            spec = SearchSpec(
                space=tuple(self.space.parameters),
                objectives=objectives,
                per=per,
                sampler=sampler,
                pruner=pruner,
                remeasure=remeasure,
                warm_start=warm_start,
                **counts,
            )
            self._together(spec)
            self.spec = spec if len(problems) == before else None

    def _given(self, word: str) -> Node | None:
        node = self._entries.get(word)
        return None if node is None or node.value is None else node

    def _space(self) -> None:
        node = self._given("space")
        if node is None or node.mapping is None:
            allowed = "required under search: {lr: {log_uniform: [1e-4, 1e-1]}, ...}"
            self._refuse(node or self._node, "space", "nothing" if node is None else node.found(), allowed)
            return
        self.space.read(node)

    def _count(self, word: str) -> int:
        node, (low, high) = self._entries[word], COUNTS[word]
        value = node.value
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self._refuse(node, word, node.found(), f"must be an integer from {low} to {high}")
            return low
        return value

    def _per(self) -> str:
        node = self._given("per")
        if node is None:
            return CELL
        if node.value not in (CELL, ALL):
            allowed = "must be cell (each cell of the grid by itself) or all (its axes are searched jointly)"
            self._refuse(node, "per", node.found(), allowed, nearest(str(node.value), (CELL, ALL)))
        return str(node.value)

    def _chosen(self, word: str, default: str) -> Chosen:
        """A sampler or pruner: a name, or a mapping with its options, which Optuna's own signature checks."""
        node = self._given(word)
        if node is None:
            return Chosen(default)
        entries = dict(node.mapping or {})
        name = entries.pop("name", None) if entries else node
        if name is None or not isinstance(name.value, str):
            self._refuse(node, word, node.found(), "must be a name, or {name: NAME, OPTION: value}")
            return Chosen(default)
        options = {key: child.plain() for key, child in entries.items()}
        from keel_lab.search import samplers

        for key, said, near in samplers.problems(word, name.value, options):
            place = entries.get(key, name)
            self._refuse(place, f"{word}.{key}" if key else word, place.found(), said, near)
        return Chosen(name.value, options)

    def _remeasure(self) -> Remeasure:
        node = self._given("remeasure")
        if node is None:
            return Remeasure()
        if node.value in (False, "off"):  # YAML reads a bare off as false
            return Remeasure(best=0)
        found = self._whole_numbers(node, "remeasure", ("best", "seeds"), least=0)
        return Remeasure(**found)

    def _warm_start(self) -> WarmStart:
        node = self._given("warm_start")
        if node is None:
            return WarmStart()
        entries = dict(node.mapping or {})
        shape = "{points: [{lr: 1e-3}], from: SWEEP, best: 5}"
        for word, child in entries.items():
            if word not in ("points", "from", "best", "drawn"):
                self._refuse(child, f"warm_start.{word}", "an unknown key", f"must be {shape}")
        best = self._whole_numbers(node, "warm_start", ("best",), least=1)
        source = entries.get("from")
        if node.mapping is None or (source is not None and not isinstance(source.value, str)):
            self._refuse(node, "warm_start", node.found(), f"must be {shape}")
        drawn = self._points(entries["drawn"], "drawn") if "drawn" in entries else None
        points = self._points(entries["points"], "points") if "points" in entries else ()
        return WarmStart(points, str(source.value) if source is not None else None, drawn=drawn, **best)

    def _points(self, node: Node, word: str) -> tuple[Mapping[str, Any], ...]:
        found = []
        parameters = {one.name: one for one in self.space.parameters}
        for item in node.items or ():
            for name, child in (item.mapping or {}).items():
                if name not in (*parameters, *self._grid_names()):
                    allowed = f"a point gives parameters of the space: {', '.join(parameters)}"
                    self._refuse(child, f"warm_start.{word}.{name}", "no parameter", allowed, nearest(name, parameters))
            found.append(item.plain())
        if node.items is None or not all(isinstance(one, dict) and one for one in found):
            self._refuse(node, f"warm_start.{word}", node.found(), "must be a list of points, such as [{lr: 1e-3}]")
            return ()
        return tuple(found)

    def _grid_names(self) -> list[str]:
        return [key.split(".")[-1] for key in self._grid.axes]

    def _whole_numbers(self, node: Node, word: str, keys: tuple[str, ...], least: int) -> dict[str, int]:
        found = {}
        for key, child in (node.mapping or {}).items():
            if key not in keys:
                if word != "warm_start":
                    self._refuse(child, f"{word}.{key}", "an unknown key", f"allowed here: {', '.join(keys)}")
            elif isinstance(child.value, bool) or not isinstance(child.value, int) or not least <= child.value <= 1000:
                self._refuse(child, f"{word}.{key}", child.found(), f"must be an integer from {least} to 1000")
            else:
                found[key] = child.value
        if node.mapping is None and word != "warm_start":
            self._refuse(node, word, node.found(), f"must be {{{', '.join(f'{key}: n' for key in keys)}}}")
        return found

    def _together(self, spec: SearchSpec) -> None:
        """What shows only when the parts are seen together."""
        from keel_lab.search import samplers

        for word, said in samplers.misfits(spec):
            node = self._entries.get(word, self._node)
            self._refuse(node, word, node.found(), said)
        shaped = [one.name for one in spec.space if one.key in ("model.width", "model.ffn_width")]
        if spec.parameters is not None and shaped:
            allowed = f"the width follows from the parameters, so {' and '.join(shaped)} cannot be searched: keep one"
            self._refuse(self._entries["parameters"], "parameters", str(spec.parameters), allowed)
        blocks = self._grid.axes.get("blocks")
        for one in spec.space:
            jointly = spec.per == ALL and blocks is not None and len(blocks.values) > 1
            if jointly and one.domain.depends_on_depth:
                allowed = "depth is searched too, so bounds cannot depend on L: use {power_of_L: [0, 1]}"
                self._refuse(self._entries["space"], f"space.{one.name}", one.domain.words(), allowed)

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self._problems.append(Problem(node.place, f"search.{key}", found, allowed, near))
