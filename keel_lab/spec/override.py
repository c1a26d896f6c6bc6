"""Overrides from the command line: `key.path=value`, read by the file's own rules, laid over the file's tree.

An override replaces whatever the file says about its key, wherever it says it: `model.width=64` also replaces an axis
`width` under `grid`, and `ramp.preset=paper` the numbers that the preset stands for. `grid.seed=null` removes an axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keel_lab.errors import Problem, SpecError
from keel_lab.spec import fields
from keel_lab.spec.node import Node, read

_EXCLUDES: dict[tuple[str, ...], list[tuple[str, ...]]] = {
    ("grid", "seed"): [("grid", "init_seed"), ("grid", "data_seed")],
    ("grid", "depth", "blocks"): [("grid", "depth", "sublayers")],
    ("grid", "depth", "sublayers"): [("grid", "depth", "blocks")],
    ("data", "corpus"): [("data", "text")],
    ("data", "text"): [("data", "corpus")],
    ("ramp", "preset"): [("ramp", key) for key in fields.PRESETS["paper"]],
}


def apply(root: Node, overrides: Sequence[str], options: Iterable[str], problems: list[Problem]) -> Node:
    """The tree with every override in it.

    Args:
        root: the file; a mapping.
        overrides: `key.path=value`, each.
        options: names of options of any architecture, for bare keys under `grid`.
        problems: those of the overrides themselves are added here.
    """
    parsed = [item for text in overrides if (item := _parse(text, problems)) is not None]
    given = [path for path, _ in parsed]
    for path in {path for path in given if given.count(path) > 1}:
        places = [node.place for other, node in parsed if other == path]
        problems.append(
            Problem(places[-1], ".".join(path), "a second time", "each key is given once on a command line")
        )
    protocol = _protocol(root, parsed)
    for path, node in parsed:
        gone = node.value is None and path[0] == "grid" and len(path) > 1
        root = _without(root, path) if gone else _set(root, path, node, problems)
        for other in _others(path, protocol, tuple(options), root):
            if other not in given:
                root = _without(root, other)
    return root


def _parse(text: str, problems: list[Problem]) -> tuple[tuple[str, ...], Node] | None:
    key, equals, value = text.partition("=")
    place = f"command line: {text}"
    if not equals or not all(key.split(".")):
        allowed = "an override is written key.path=value, such as model.width=64 or grid.seed=[0,1]"
        problems.append(Problem("command line", text, "no override", allowed))
        return None
    try:
        node = read(value, "command line", problems, whole_place=place) or Node(None, "", place)
    except SpecError as error:
        problems.extend(Problem(item.place, key, item.found, item.allowed) for item in error.problems)
        return None
    return _path(key), node


def _path(key: str) -> tuple[str, ...]:
    """Splits at dots, except inside one key: `grid.model.width`, `per_architecture.package.module:Name.alpha`."""
    top, *rest = key.split(".")
    if top == "grid" and rest and rest[0] != "depth":
        return (top, ".".join(rest))
    if top == "per_architecture" and ":" in key:
        module, _, tail = ".".join(rest).partition(":")
        name, dot, option = tail.partition(".")
        return (top, f"{module}:{name}", option) if dot else (top, f"{module}:{name}")
    return (top, *rest)


def _protocol(root: Node, parsed: Sequence[tuple[tuple[str, ...], Node]]) -> str:
    chosen = [node.value for path, node in parsed if path == ("protocol",)]
    in_file = (root.mapping or {}).get("protocol")
    value = chosen[-1] if chosen else in_file.value if in_file else None
    return value if isinstance(value, str) and value in fields.PROTOCOLS else "ramp"


def _others(path: tuple[str, ...], protocol: str, options: tuple[str, ...], root: Node) -> list[tuple[str, ...]]:
    """Where else the file may speak of the same key."""
    found = list(_EXCLUDES.get(path, []))
    grid = _child(root, "grid")
    if path[0] == "grid" and len(path) == 2:
        for meant in fields.candidates(path[1], protocol, options):
            top, key = meant.split(".", 1)
            if top == "options":
                found += [("per_architecture", name, key) for name in _child(root, "per_architecture")]
            else:
                found.append((top, key))
                found += [("grid", word) for word in (meant, key) if word != path[1]]
    elif len(path) == 2 and grid and ".".join(path) in fields.dotted(protocol):
        found += [("grid", path[1]), ("grid", ".".join(path))]
    if path[0] == "schedule" or (path[0] == "grid" and path[-1].endswith(("warmup", "warmup_steps"))):
        twin = {"warmup": "warmup_steps", "warmup_steps": "warmup"}.get(path[-1].split(".")[-1])
        found += [("schedule", twin), ("grid", twin), ("grid", f"schedule.{twin}")] if twin else []
    return found


def _child(root: Node, key: str) -> dict[str, Node]:
    child = (root.mapping or {}).get(key)
    return dict(child.mapping or {}) if child else {}


def _set(node: Node, path: tuple[str, ...], value: Node, problems: list[Problem], done: tuple[str, ...] = ()) -> Node:
    """A copy of the tree with `value` at `path`; missing mappings on the way are made."""
    entries = node.mapping
    if entries is None and node.value is None:
        entries = {}
    if entries is None:
        place, key = value.place, ".".join(done)
        problems.append(
            Problem(
                place,
                ".".join(done + path),
                f"{key}: {node.found()}",
                f"{key} has no keys inside it: write {key}=VALUE",
            )
        )
        return node
    name, *rest = path
    inner = entries.get(name, Node({}, "", value.place))
    child = _set(inner, tuple(rest), value, problems, (*done, name)) if rest else value
    return Node({**entries, name: child}, "", node.place)


def _without(node: Node, path: tuple[str, ...]) -> Node:
    """A copy of the tree without the entry at `path`, if it is there."""
    name, *rest = path
    entries = node.mapping
    if entries is None or name not in entries:
        return node
    if not rest:
        return Node({key: child for key, child in entries.items() if key != name}, "", node.place)
    return Node({**entries, name: _without(entries[name], tuple(rest))}, "", node.place)
