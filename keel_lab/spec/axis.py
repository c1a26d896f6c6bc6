"""The values under one key: a scalar, a list of them, or a range `{log: [lo, hi, n]}` or `{linear: [lo, hi, n]}`."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from keel_lab.errors import Problem
from keel_lab.settings import LARGEST
from keel_lab.spec.kind import Kind, nearest
from keel_lab.spec.node import Node
from keel_lab.spec.rule import RuleError

RANGES = ("log", "linear")
LONGEST = 1000  # values of one range
_FORMS = "{log: [lo, hi, n]} or {linear: [lo, hi, n]}"


@dataclass(frozen=True)
class Values:
    """The typed values under a key, each with the node it came from.

    Attributes:
        key: dotted, as in messages.
        node: the whole value in the file.
        items: (value, node) of each valid value.
        listed: whether they were given as a list or range, i.e. as an axis.
    """

    key: str
    node: Node
    items: tuple[tuple[Any, Node], ...]
    listed: bool

    @property
    def values(self) -> tuple[Any, ...]:
        """The typed values."""
        return tuple(value for value, _ in self.items)


def read(key: str, node: Node, kind: Kind, problems: list[Problem], *, single: str = "") -> Values:
    """The values under `key`; what is wrong with them is added to `problems` and left out.

    Args:
        key: dotted, for messages.
        node: what stands under it.
        kind: what each value may be.
        problems: grows.
        single: if set, why this key cannot vary; then a list or range is refused.
    """
    elements = node.items
    one_pair = kind.pair and elements is not None and not any(item.items is not None for item in elements)
    listed = node.mapping is not None or (elements is not None and not one_pair)
    if listed and single:
        problems.append(Problem(node.place, key, node.found(), f"{kind.allowed}; {single}"))
        return Values(key, node, (), listed)
    if elements == () and not kind.pair:
        problems.append(Problem(node.place, key, "an empty list", "an axis needs at least one value"))
        return Values(key, node, (), listed)
    if node.mapping is not None:
        items = _range(key, node, kind, problems)
    else:
        sources = elements if elements is not None and listed else (node,)
        items = [(item, item.plain()) for item in sources]
    checked = [
        (value, item) for item, plain in items if (value := _check(key, item, plain, kind, problems)) is not _BAD
    ]
    return Values(key, node, tuple(_distinct(key, checked, problems)), listed)


_BAD = object()


def _check(key: str, node: Node, plain: Any, kind: Kind, problems: list[Problem]) -> Any:
    try:
        if isinstance(plain, dict | list) and not kind.pair:
            raise ValueError(kind.allowed)
        return kind.convert(plain)
    except RuleError as error:
        problems.append(Problem(node.place, key, kind.found(node), f"{error}; {kind.allowed}", kind.nearest(node)))
    except ValueError as error:
        said = str(error) if str(error).startswith("must ") else kind.allowed
        problems.append(Problem(node.place, key, kind.found(node), said, kind.nearest(node)))
    return _BAD


def _distinct(key: str, items: Sequence[tuple[Any, Node]], problems: list[Problem]) -> list[tuple[Any, Node]]:
    """Without repeats. Values are typed by now: 1e-4 and 0.0001 are one, so are 1 and 1.0."""
    seen: dict[str, Node] = {}
    kept = []
    for value, node in items:
        same = json.dumps(value)
        if same in seen:
            earlier = seen[same].found()
            what = (
                f"{node.found()} twice" if earlier == node.found() else f"{node.found()}, the same value as {earlier}"
            )
            problems.append(Problem(node.place, key, what, "each value of an axis is given once"))
            continue
        seen[same] = node
        kept.append((value, node))
    return kept


def _range(key: str, node: Node, kind: Kind, problems: list[Problem]) -> list[tuple[Node, Any]]:
    """The values of `{log: ...}` or `{linear: ...}`, each with a node that shows it."""

    def refuse(found: str, allowed: str, near: str | None = None) -> list[tuple[Node, Any]]:
        problems.append(Problem(node.place, key, found, allowed, near))
        return []

    entries = node.mapping or {}
    if not kind.number:
        return refuse(node.found(), f"{kind.allowed}; no range is possible here")
    if len(entries) != 1 or (form := next(iter(entries))) not in RANGES:
        near = nearest(next(iter(entries)), RANGES) if len(entries) == 1 else None
        return refuse(node.found(), f"must be a value, a list of values, {_FORMS}", near)
    bounds = entries[form].plain()
    if not (isinstance(bounds, list) and len(bounds) == 3 and all(map(_is_number, bounds))):
        return refuse(node.found(), f"must be {_FORMS}: three numbers")
    low, high, count = bounds
    if not isinstance(count, int) or not 2 <= count <= LONGEST:
        return refuse(node.found(), f"n, the number of values, must be an integer from 2 to {LONGEST}")
    if low >= high:
        return refuse(node.found(), "lo must be below hi")
    if form == "log" and low <= 0:
        return refuse(node.found(), "lo of a log range must be above 0")
    whole = isinstance(low, int) and isinstance(high, int)
    steps: Callable[..., list[Any]] = _log if form == "log" else _linear
    values = steps(low, high, count)
    if kind.integer and (not whole or any(value is None for value in steps(low, high, count, whole=True))):
        return refuse(node.found(), "its values must all be whole numbers here: change lo, hi or n, or list the values")
    if whole and all(value is not None for value in steps(low, high, count, whole=True)):
        values = steps(low, high, count, whole=True)
    return [(Node(value, repr(value), node.place), value) for value in values]


def _is_number(value: Any) -> bool:
    largest = LARGEST if isinstance(value, int) else 1e300
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= largest


def _linear(low: float, high: float, count: int, *, whole: bool = False) -> list[Any]:
    """Evenly spaced in exact arithmetic on the decimals as written; with `whole`, None where no integer falls."""
    start, span = Fraction(repr(low)), Fraction(repr(high)) - Fraction(repr(low))
    exact = [start + span * index / (count - 1) for index in range(count)]
    if whole:
        return [int(value) if value.denominator == 1 else None for value in exact]
    return [low, *(float(value) for value in exact[1:-1]), high]


def _log(low: float, high: float, count: int, *, whole: bool = False) -> list[Any]:
    """Geometrically spaced, correctly rounded: 1e-4 to 1e-1 in four is 1e-4, 1e-3, 1e-2, 1e-1 and no near miss."""
    last = count - 1
    with decimal.localcontext(prec=60):
        ratio = (Decimal(repr(high)) / Decimal(repr(low))).ln() / last
        values = [Decimal(repr(low)) * (ratio * index).exp() for index in range(1, last)]
        if not whole:
            return [low, *(float(value) for value in values), high]
        nearby = [low, *(int(value.to_integral_value()) for value in values), high]
    return [
        value if value**last == low ** (last - index) * high**index else None
        for index, value in enumerate(map(int, nearby))
    ]
