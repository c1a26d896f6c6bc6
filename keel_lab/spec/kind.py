"""What may stand under a key: a check that gives the typed value, and the words that say what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from keel_lab.architecture import Option
from keel_lab.settings import LARGEST
from keel_lab.spec import quantity, rule
from keel_lab.spec.label import label_text
from keel_lab.spec.node import Node


@dataclass(frozen=True)
class Kind:
    """One kind of value.

    Attributes:
        allowed: one clause for messages, e.g. `must be an integer of at least 1`.
        convert: the typed value of plain data, or ValueError.
        number: whether numbers may stand here, so that a range makes sense.
        integer: whether only whole ones may.
        flag: whether it is true or false.
        pair: whether one value is itself a list.
        words: the words that may stand here, for the nearest one.
        schema: the same as JSON Schema; it may let pass what `convert` refuses, never the reverse.
    """

    allowed: str
    convert: Callable[[Any], Any]
    number: bool = False
    integer: bool = False
    flag: bool = False
    pair: bool = False
    words: tuple[str, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=dict)

    def found(self, node: Node) -> str:
        """What stands at `node`, with its type where that is the fault."""
        if isinstance(node.value, str) and (self.number or self.flag) and not self.words:
            return f"{node.found()} (a string)"
        if isinstance(node.value, bool) and not self.flag:
            return f"{node.found()} (a boolean)"
        if isinstance(node.value, int | float) and self.words and not self.number:
            return f"{node.found()} (a number)"
        return node.found()

    def nearest(self, node: Node) -> str | None:
        """What the user may have meant, if that is plain to see."""
        value = node.value
        if self.flag and isinstance(value, str | int):
            return {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}.get(
                str(value).lower()
            )
        if isinstance(value, str) and (close := nearest(value, self.words)):
            return close
        if self.number and isinstance(value, str | float) and (guess := _as_number(value, self.integer)) is not None:
            return self._if_allowed(guess)
        if value in (None, False) and "off" in self.words:
            return "off"
        return None

    def _if_allowed(self, guess: float) -> str | None:
        try:
            return label_text(self.convert(guess))
        except ValueError:
            return None


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that `word` is probably a slip of; `Pre-LN` is near `pre_ln`."""
    known = {name.lower().replace("-", "_"): name for name in allowed}
    close = difflib.get_close_matches(word.lower().replace("-", "_").replace(" ", "_")[:80], known, n=1)
    return known[close[0]] if close else None


def _as_number(value: str | float, integer: bool) -> float | None:
    try:
        number = float(value.replace("_", "").strip()) if isinstance(value, str) else value
    except ValueError:
        return None
    if not math.isfinite(number) or (integer and number != int(number)):
        return None
    return int(number) if integer else number


def of_field(info: FieldInfo) -> Kind:
    """The kind of a field of a settings model."""
    annotation: Any = info.annotation
    if info.metadata:
        annotation = Annotated[(annotation, *info.metadata)]
    adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=ConfigDict(strict=True))
    schema = adapter.json_schema()
    parts = schema.get("anyOf", [schema])
    types = {part.get("type") for part in parts}

    def convert(value: Any) -> Any:
        try:
            checked = adapter.validate_python(tuple(value) if isinstance(value, list) else value)
        except ValidationError as error:
            too_large = any(fault["type"] == "less_than_equal" for fault in error.errors())
            raise ValueError(_allowed(schema, largest=too_large)) from error
        return list(checked) if isinstance(checked, tuple) else checked

    return Kind(
        allowed=_allowed(schema),
        convert=convert,
        number=bool(types & {"integer", "number"}),
        integer="integer" in types,
        flag="boolean" in types,
        pair="array" in types,
        words=tuple(
            word for part in parts for word in (*part.get("enum", ()), part.get("const")) if isinstance(word, str)
        ),
        schema={key: value for key, value in schema.items() if key not in ("title", "default")},
    )


def _allowed(schema: Mapping[str, Any], *, largest: bool = False) -> str:
    return "must be " + ", or ".join(_clause(part, largest) for part in schema.get("anyOf", [schema]))


def _clause(schema: Mapping[str, Any], largest: bool) -> str:
    if "const" in schema or "enum" in schema:
        words = [str(word) for word in schema.get("enum", [schema.get("const")])]
        return words[0] if len(words) == 1 else "one of " + ", ".join(words)
    kind = schema.get("type")
    if kind == "array":
        return "a list of two: " + ", and ".join(_clause(item, largest) for item in schema["prefixItems"])
    if kind not in ("integer", "number"):
        return {"boolean": "true or false", "null": "null", "string": "text"}.get(str(kind), str(kind))
    bounds = {
        "minimum": "of at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "of at most {}",
        "exclusiveMaximum": "under {}",
    }
    said = [
        text.format(label_text(schema[key]))
        for key, text in bounds.items()
        if key in schema and (largest or schema[key] != LARGEST)
    ]
    return " ".join(["an integer" if kind == "integer" else "a number", " and ".join(said)]).strip()


def _from_function(allowed: str, convert: Callable[[Any], Any], **flags: Any) -> Kind:
    return Kind(allowed=f"must be {allowed}", convert=convert, **flags)


MEMORY = _from_function(quantity.MEMORY, quantity.memory_bytes, schema=quantity.MEMORY_SCHEMA)
DURATION = _from_function(
    quantity.DURATION,
    lambda value: None if value is None else quantity.seconds(value),
    schema=quantity.DURATION_SCHEMA,
)
PERCENTAGE = _from_function(quantity.PERCENTAGE, quantity.percentage, schema=quantity.PERCENTAGE_SCHEMA)


def of_option(option: Option) -> Kind:
    """The kind of an architecture's option. A rule's bounds are checked once its depth is known."""
    if option.kind == "flag":
        return _from_function("true or false", _flag, flag=True, schema={"type": "boolean"})
    if option.kind == "choice":

        def choose(value: Any) -> str:
            if value not in option.choices:
                raise ValueError(option.kind)
            return str(value)

        listed = {"enum": list(option.choices)}
        return _from_function("one of " + ", ".join(option.choices), choose, words=option.choices, schema=listed)
    if option.kind == "rule":
        said = bounds(option)
        named = f", or {' or '.join(option.names)}" if option.names else ""

        def resolve(value: Any) -> float | str:
            return _rule(option.names.get(value, value) if isinstance(value, str) else value)

        allowed = rule.EXAMPLES + (f",{said}" if said else "") + named
        written = [
            {"type": "string", "pattern": rule.PATTERN},
            *([{"enum": list(option.names)}] if option.names else []),
        ]
        either = {"anyOf": [{"type": "number", **_bounds_schema(option)}, *written]}
        return _from_function(allowed, resolve, number=True, words=(*rule.WORDS, *option.names), schema=either)

    def number(value: Any) -> float:
        checked = _finite(value)
        if not within(option, checked):
            raise ValueError(option.kind)
        return checked

    plain = {"type": "number", **_bounds_schema(option)}
    return _from_function(f"a number{bounds(option)}", number, number=True, schema=plain)


def _bounds_schema(option: Option) -> dict[str, float]:
    low = {} if option.low is None else {"exclusiveMinimum" if option.open_low else "minimum": option.low}
    return low if option.high is None else {**low, "maximum": option.high}


def within(option: Option, value: float) -> bool:
    """Whether a resolved number keeps the option's bounds."""
    if option.low is not None and (value < option.low or (option.open_low and value == option.low)):
        return False
    return option.high is None or value <= option.high


def bounds(option: Option) -> str:
    """` above 0 and of at most 5`, or nothing."""
    low = "" if option.low is None else f" {'above' if option.open_low else 'of at least'} {label_text(option.low)}"
    high = "" if option.high is None else f" of at most {label_text(option.high)}"
    return " and".join(part for part in (low, high) if part)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("flag")
    return value


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("number") from error
    if not math.isfinite(number):
        raise ValueError("number")
    return number


def _rule(value: Any) -> float | str:
    """A number, or a rule in its canonical spelling; a rule without L is a number."""
    if not isinstance(value, str):
        return _finite(value)
    rule.parse(value)  # before spaces go: `2 3L` is not 23L
    text = rule.canonical(value)
    return text if "L" in text else rule.resolve(text, 1)
