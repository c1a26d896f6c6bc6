"""Reads `search.objectives`: a name, names with directions, or a list of either."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from keel_lab.errors import Problem, UsageError
from keel_lab.own_trainer import DEFAULT, load
from keel_lab.spec.kind import nearest
from keel_lab.spec.node import Node
from keel_lab.spec.search import DIRECTIONS, OBJECTIVES, Objective


def read(node: Node | None, section: Node, trainer: str, problems: list[Problem]) -> tuple[Objective, ...]:
    """The objectives; what is wrong with them is added to `problems`.

    Args:
        node: what stands under `objectives`; None if nothing does.
        section: the section `search`.
        trainer: the module that trains, which may say what it reports (`METRICS`).
        problems: grows.
    """
    return _Reader(trainer, problems).all(node, section)


class _Reader:
    def __init__(self, trainer: str, problems: list[Problem]) -> None:
        self._trainer, self._problems = trainer, problems

    def all(self, node: Node | None, section: Node) -> tuple[Objective, ...]:
        known = ", ".join(OBJECTIVES)
        if node is None:
            allowed = f"required under search: objectives: val_loss, or a list, or {{NAME: minimize}}; known: {known}"
            self._refuse(section, "objectives", "nothing", allowed)
            return ()
        if node.mapping is not None:
            given = [(name, child) for name, child in node.mapping.items()]
        else:
            items = node.items if node.items is not None else (node,)
            given = [named for one in items for named in (one.mapping.items() if one.mapping else [(one.found(), one)])]
        found = [one for name, child in given if (one := self._one(name, child, child.mapping)) is not None]
        if not given:
            self._refuse(node, "objectives", "an empty list", f"a search has at least one objective; known: {known}")
        if len({one.name for one in found}) < len(found):
            self._refuse(node, "objectives", node.found(), "each objective is given once")
        return tuple(found)

    def _one(self, name: str, node: Node, entries: Mapping[str, Node] | None) -> Objective | None:
        path = f"objectives.{name}"
        said: Any = node.value if entries is None and node.value in DIRECTIONS else None
        if entries is not None and "direction" in entries:
            said = entries["direction"].value
        direction: Any = OBJECTIVES.get(name) if said is None else said
        if entries is None and node.value not in (name, *DIRECTIONS):
            self._refuse(node, path, node.found(), "must be minimize or maximize", nearest(str(node.value), DIRECTIONS))
            return None
        if direction not in DIRECTIONS:
            words = f"{name}: minimize or {name}: maximize (known without one: {', '.join(OBJECTIVES)})"
            self._refuse(node, path, "no direction", f"write {words}", nearest(name, OBJECTIVES))
            return None
        if (wrong := self._not_reported(name)) is not None:
            self._refuse(node, path, name, wrong, nearest(name, OBJECTIVES))
            return None
        target = entries.get("target") if entries is not None else None
        extra = set(entries or ()) - {"direction", "target"}
        value: Any = None if target is None else target.value
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
        if extra or (name == "tokens_to_loss") != (value is not None) or (value is not None and not good):
            allowed = "tokens_to_loss needs the loss to reach: {tokens_to_loss: {target: 2.5}}; no other has one"
            self._refuse(node, path, node.found(), allowed)
            return None
        return Objective(name, direction, None if value is None else float(value))

    def _not_reported(self, name: str) -> str | None:
        """What is known, before any trial, against a metric of that name."""
        own = set(OBJECTIVES) - {"val_loss"}
        if name in own:
            return None
        if self._trainer == DEFAULT:
            good = name == "val_loss" or "/" in name
            reported = ("val_loss",)
        else:
            try:
                reported = tuple(getattr(load(self._trainer), "METRICS", ()))
            except UsageError:  # said where the trainer is named
                return None
            good = not reported or name in reported
        return None if good else f"no such metric is reported: objectives are {', '.join([*sorted(own), *reported])}"

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self._problems.append(Problem(node.place, f"search.{key}", found, allowed, near))
