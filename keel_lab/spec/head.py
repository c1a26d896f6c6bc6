"""The head of a sweep file: schema, name, question and protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keel_lab.errors import Problem
from keel_lab.spec import fields
from keel_lab.spec.kind import nearest
from keel_lab.spec.node import Node

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_NAME_ALLOWED = (
    "a name is letters, digits, - _ . (it becomes a folder), at most 100, starting with a letter, digit or _"
)


class Head:
    """What it says.

    Attributes:
        name: empty if it is none.
        protocol: `ramp`, `grid` or `search`; a guess if the file's own is wrong.
        protocol_is_known: whether it is the file's own.
    """

    def __init__(self, root: Node, problems: list[Problem]) -> None:
        self._root, self._problems = root, problems
        self._entries: Mapping[str, Node] = root.mapping or {}
        self.name = ""
        self.question: str | None = None
        self.protocol = self._protocol()
        given = self._entries.get("protocol")
        self.protocol_is_known = given is not None and given.value == self.protocol
        self._read()

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self._problems.append(Problem(node.place, key, found, allowed, near))

    def _read(self) -> None:
        self._schema()
        node = self._required("name", "required at the top: name: my_sweep")
        if node is not None:
            if isinstance(node.value, str) and NAME.fullmatch(node.value):
                self.name = node.value
            elif isinstance(node.value, str):
                near = re.sub(r"[^A-Za-z0-9_.-]+", "_", node.value).lstrip(".-")[:100]
                self._refuse(node, "name", node.found() or '""', _NAME_ALLOWED, near if NAME.fullmatch(near) else None)
            else:
                quoted = f"{_NAME_ALLOWED}; text that reads as a number or true/false needs quotes"
                self._refuse(node, "name", node.found(), quoted)
        node = self._entries.get("question")
        if node is not None and node.value is not None:
            if isinstance(node.value, str):
                self.question = node.value
            else:
                self._refuse(node, "question", node.found(), "must be text: quote it")

    def _schema(self) -> None:
        node = self._required("schema", f"required at the top: schema: {fields.SCHEMA}")
        if node is None or (type(node.value) is int and node.value == fields.SCHEMA):
            return
        allowed = f"must be {fields.SCHEMA}"
        if type(node.value) is int and node.value > fields.SCHEMA:
            allowed = f"this version of keel_lab reads schema {fields.SCHEMA}: upgrade keel_lab to read a newer file"
        self._refuse(node, "schema", node.found(), allowed)

    def _protocol(self) -> str:
        names = ", ".join(fields.PROTOCOLS)
        node = self._required("protocol", f"required at the top: protocol: one of {names}")
        if node is not None:
            if isinstance(node.value, str) and node.value in fields.PROTOCOLS:
                return node.value
            near = nearest(str(node.value), fields.PROTOCOLS)
            self._refuse(node, "protocol", node.found(), f"must be one of {names}", near)
        if "search" in self._entries:
            return "search"
        return "grid" if "schedule" in self._entries and "ramp" not in self._entries else "ramp"

    def _required(self, key: str, allowed: str) -> Node | None:
        node = self._entries.get(key)
        if node is None or node.value is None:
            self._refuse(node or self._root, key, "nothing", allowed)
            return None
        return node
