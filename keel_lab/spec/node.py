"""Sweep text as a tree that remembers where everything stood.

YAML 1.2: `1e-4`, `3e6`, `.5` and `1.` are floats, `off` and `1_000` are strings.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keel_lab.errors import Problem, SpecError

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.nodes import Node as YamlNode

Scalar = None | bool | int | float | str

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 400  # characters; every float that is one is shorter
_MOST_NODES = 200_000  # aliases of aliases can grow without bound
_SHOWN = 60
_REMEDY = "check brackets, quotes, colons and indentation there"
_REMEDIES = {  # by what the parser says
    "\\t": "indent with spaces",
    "another document": "a sweep file is one document: remove what follows the line ---",
    "alias": "text that starts with * or & needs quotes",
    "duplicate anchor": "text that starts with * or & needs quotes",
    "cannot start any token": "text that starts with @, %, ` or a tab needs quotes",
}


@dataclass(frozen=True)
class Node:
    """One value.

    Attributes:
        value: a scalar, a tuple of nodes, or a dict of nodes by key.
        text: a scalar as it was written, quotes included.
        place: `file:line` of the value (a mapping's or list's: of its key), or the override on the command line.
    """

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    text: str
    place: str

    @property
    def mapping(self) -> Mapping[str, Node] | None:
        """The entries, or None if it is no mapping."""
        return self.value if isinstance(self.value, dict) else None

    @property
    def items(self) -> tuple[Node, ...] | None:
        """The elements, or None if it is no list."""
        return self.value if isinstance(self.value, tuple) else None

    def found(self) -> str:
        """What stands here, for a message."""
        if self.value is None:
            return "nothing" if self.text in ("", "null", "~") else self.text
        whole = _outline(self)
        return whole if len(whole) <= _SHOWN else whole[: _SHOWN - 3] + "..."

    def plain(self) -> Any:
        """The value as plain data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, tuple) else self.value


def _outline(node: Node) -> str:
    if isinstance(node.value, dict):
        entries = list(node.value.items())[:8]
        return "{" + ", ".join(f"{key}: {_outline(child)}" for key, child in entries) + "}"
    if isinstance(node.value, tuple):
        return "[" + ", ".join(_outline(child) for child in node.value[:20]) + "]"
    return node.text or "nothing"


def scalar(text: str) -> Scalar:
    """A plain (unquoted) scalar's value under the core schema of YAML 1.2."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return math.nan if special[0].lower() == ".nan" else float(f"{special[1]}inf")
    return text


def read(text: str, source: str, problems: list[Problem], *, whole_place: str | None = None) -> Node | None:
    """The tree of a YAML text, or None if it is empty.

    Args:
        text: one YAML document.
        source: how messages name the file.
        problems: what is wrong but does not hide the rest, such as a key given twice, is added here.
        whole_place: the place of everything in `text`, for values that do not stand in a file.

    Raises:
        SpecError: if it is no YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

    def broken(line: int | None, reason: str) -> SpecError:
        place = whole_place or (source if line is None else f"{source}:{line}")
        remedy = next((advice for sign, advice in _REMEDIES.items() if sign in reason), _REMEDY)
        return SpecError([Problem(place, "(whole file)", f"text that is no YAML ({reason})", remedy)])

    try:
        with warnings.catch_warnings(action="ignore", category=ReusedAnchorWarning):  # YAML 1.2 allows it
            root = YAML(typ="safe", pure=True).compose(text)
        if root is None:
            return None
        return _Reader(source, problems, whole_place).node(root)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise broken(mark.line + 1 if mark else None, _reason(error)) from error
    except YAMLError as error:
        raise broken(_line_of(text, error), _one_line(str(error).split("\n")[0])) from error
    except RecursionError as error:
        raise broken(None, "nested too deeply") from error
    except (ValueError, OverflowError) as error:  # an escape such as "\\U99999999" that names no character
        raise broken(None, _one_line(str(error))) from error


def _reason(error: MarkedYAMLError) -> str:
    said = _one_line(error.problem or error.context or "broken")
    start, end = error.context_mark, error.problem_mark
    if start and end and start.line != end.line and error.context:
        return f"{said}; {_one_line(error.context)} that starts at line {start.line + 1}"
    return said


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())


def _line_of(text: str, error: Exception) -> int | None:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


@dataclass
class _Reader:
    """Turns composed YAML nodes into ours."""

    source: str
    problems: list[Problem]
    whole_place: str | None
    _open: set[int] = field(default_factory=set)
    _count: int = 0

    def place(self, node: YamlNode) -> str:
        return self.whole_place or f"{self.source}:{node.start_mark.line + 1}"

    def refuse(self, node: YamlNode, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(self.place(node), key, found, allowed))

    def node(self, node: YamlNode, key: str = "", place: str | None = None) -> Node:
        """Converts a node; `place`, its key's, is used for mappings and lists, which may start on a later line."""
        self._count += 1
        if id(node) in self._open or self._count > _MOST_NODES:
            raise SpecError(
                [Problem(self.place(node), key or "(whole file)", "an alias that never ends", "write it out")]
            )
        kind = type(node).__name__
        if kind == "ScalarNode":
            return self._scalar(node, key, place)
        self._open.add(id(node))
        if _is_tagged(node):
            self.refuse(node, key, f"the tag {_tag(node)}", "tags have no meaning here: remove it")
        if kind == "SequenceNode":
            items = tuple(self.node(item, key) for item in node.value)
            result = Node(items, "", place or self.place(node))
        else:
            result = Node(self._entries(node, key), "", place or self.place(node))
        self._open.discard(id(node))
        return result

    def _entries(self, node: YamlNode, key: str) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for name_node, value in node.value:
            name = name_node.value
            if not isinstance(name, str) or not name:
                found = "an empty key" if name == "" else "a key that is a list or mapping"
                self.refuse(name_node, key or "(top level)", found, "a key is one word")
                continue
            path = f"{key}.{name}" if key else name
            if name in entries:
                at = "" if self.whole_place else f" (first at line {lines[name]})"
                self.refuse(name_node, path, f"a second time{at}", "each key is given once: keep one of the two")
                continue
            lines[name] = name_node.start_mark.line + 1
            entries[name] = self.node(value, path, self.place(name_node))
        return entries

    def _scalar(self, node: YamlNode, key: str, key_place: str | None) -> Node:
        text, plain = node.value, getattr(node, "style", None) is None
        if _is_tagged(node):
            self.refuse(node, key, f"the tag {_tag(node)}", "tags have no meaning here: remove it")
        place = key_place if key_place and plain and not text else self.place(node)  # an empty value has no place
        return Node(scalar(text) if plain else text, text if plain else f'"{text}"', place)


def _is_tagged(node: YamlNode) -> bool:
    """Whether the user wrote a tag, rather than YAML finding one."""
    return node.ctag.handle is not None or not str(node.tag).startswith("tag:yaml.org,2002:")


def _tag(node: YamlNode) -> str:
    return str(node.tag).replace("tag:yaml.org,2002:", "!!")
