"""The sweep file as JSON Schema, for editors: made from the very tables that check it (`fields`, `kind`).

It finds unknown keys, wrong types and values out of bounds while one types. What depends on several keys at once, such
as heads that divide the width, only `keel-lab validate` knows. What the schema refuses, `validate` refuses as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from keel_lab.architecture import Catalogue
from keel_lab.detect.thresholds import Thresholds
from keel_lab.spec import fields, kind, lr_choice
from keel_lab.spec.axis import LONGEST, RANGES
from keel_lab.spec.head import NAME
from keel_lab.spec.kind import Kind
from keel_lab.spec.label import label_text
from keel_lab.spec.meanings import MEANINGS, attributes
from keel_lab.spec.reading import FIXED
from keel_lab.spec.search_schema import search_schema

DRAFT = "http://json-schema.org/draft-07/schema#"  # what editors understand best
Schema = dict[str, Any]


def sweep_schema(catalogue: Catalogue) -> Schema:
    """The JSON Schema of a sweep file with these architectures."""
    grids = {
        f"{protocol}_{whose}": _grid(protocol, catalogue, own=whose == "own")
        for protocol in fields.PROTOCOLS
        for whose in ("ours", "own")
    }
    definitions = {"range": _range(), **{f"option_{name}": one for name, one in _options(catalogue).items()}, **grids}
    return {
        "$schema": DRAFT,
        "title": "keel_lab sweep",
        "type": "object",
        "properties": {key: {"description": MEANINGS[key], **_top(key, catalogue)} for key in fields.TOP},
        "required": ["schema", "name", "protocol", "grid"],
        "additionalProperties": False,
        "allOf": [_under(protocol, whose) for protocol in fields.PROTOCOLS for whose in ("ours", "own")],
        "definitions": definitions,
    }


def _under(protocol: str, whose: str) -> Schema:
    """What holds under a protocol, with our trainer or one of the user's."""
    trainer = {"type": "null"} if whose == "ours" else {"type": "string"}
    needed = ["protocol"] if whose == "ours" else ["protocol", "trainer"]
    others = [name for name in (*fields.SCHEDULES, "search") if name not in (*fields.PROTOCOLS[protocol], protocol)]
    return {
        "if": {"properties": {"protocol": {"const": protocol}, "trainer": trainer}, "required": needed},
        "then": {
            "properties": {
                "grid": {"$ref": f"#/definitions/{protocol}_{whose}"},
                **{section: {"type": "null"} for section in others},
            }
        },
    }


def _top(key: str, catalogue: Catalogue) -> Schema:
    match key:
        case "schema":
            return {"const": fields.SCHEMA}
        case "name":
            return {"type": "string", "pattern": f"^{NAME.pattern}$"}
        case "question" | "trainer":
            return {"type": ["string", "null"]}
        case "protocol":
            return {"enum": list(fields.PROTOCOLS)}
        case "grid":
            return {"type": "object"}
        case "per_architecture":
            return _per_architecture(catalogue)
        case "search":
            return search_schema()
    preset = {"preset": {"enum": [*fields.PRESETS, None]}} if key == "ramp" else {}
    kinds, defaults = fields.section(key), fields.defaults(key)
    entries = {
        name: _described(f"{key}.{name}", one, defaults.get(name), one.schema if key in FIXED else _varying(one))
        for name, one in kinds.items()
    }
    named = {name: {"description": MEANINGS[f"{key}.{name}"], **one} for name, one in preset.items()}
    return _section({**named, **entries})


def _section(properties: Mapping[str, Schema]) -> Schema:
    return {"type": ["object", "null"], "properties": dict(properties), "additionalProperties": False}


def _per_architecture(catalogue: Catalogue) -> Schema:
    named = {}
    for name in catalogue.names():
        options = catalogue.declaration(name).options
        named[name] = {
            "type": "object",
            "description": catalogue.declaration(name).title,
            "properties": {word: _option(kind.of_option(one), one.help) for word, one in options.items()},
            "additionalProperties": False,
        }
    # others are package:Name, or what a trainer of the user's own calls its architectures
    return {"type": ["object", "null"], "properties": named, "additionalProperties": {"type": "object"}}


def _grid(protocol: str, catalogue: Catalogue, *, own: bool) -> Schema:
    """What may stand under `grid`; under a trainer of the user's own, architectures and their options are any words."""
    names: Schema = {"type": "string", "minLength": 1}
    if not own:
        names = {"anyOf": [{"enum": list(catalogue.names())}, {"type": "string", "pattern": "^[^:]+:[^:]+$"}]}
    depth = {word: _described(f"grid.depth.{word}", fields.loose(word)) for word in fields.DEPTHS}
    properties: dict[str, Schema] = {
        "architecture": {"description": MEANINGS["grid.architecture"], **_listed(names)},
        "depth": {
            "type": "object",
            "description": MEANINGS["grid.depth"],
            "properties": depth,
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
        **{word: _described(f"grid.{word}", fields.loose(word)) for word in fields.SEEDS},
        **{word: {"$ref": f"#/definitions/option_{word}"} for word in _options(catalogue)},
        **_keys(protocol),
    }
    required = ["architecture", "depth"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": own}


def _options(catalogue: Catalogue) -> dict[str, Schema]:
    """The options of any architecture; one that several have may be what it is in any of them."""
    found: dict[str, list[Schema]] = {}
    for name in catalogue.names():
        for word, option in catalogue.declaration(name).options.items():
            schema = _option(kind.of_option(option), option.help)
            if schema not in found.setdefault(word, []):
                found[word].append(schema)
    return {word: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for word, schemas in found.items()}


def _keys(protocol: str) -> dict[str, Schema]:
    """Keys of sections, as `model.width` and, where that says which is meant, as `width`."""
    pairs = [(dotted, *dotted.split(".")) for dotted in fields.dotted(protocol)]
    found: dict[str, Schema] = {
        key: {"$ref": f"#/properties/{section}/properties/{word}"}
        for dotted, section, word in pairs
        for key in (dotted, word)
        if fields.candidates(key, protocol, ()) == [dotted]
    }
    choices = {key: {"anyOf": [found[key], _lr_choice()]} for key in ("lr", "schedule.lr") if key in found}
    return found | choices


def _lr_choice() -> Schema:
    """LRs that another sweep measured."""
    words: dict[str, Schema] = {
        "from": {"type": "string"},
        "pick": {"type": "string"},
        "per": {"const": lr_choice.CELL},
        "rates": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
    }
    named = {word: {"description": MEANINGS[f"lr.{word}"], **one} for word, one in words.items()}
    return {"type": "object", "properties": named, "required": ["from", "pick"], "additionalProperties": False}


def _option(one: Kind, meaning: str) -> Schema:
    return {"description": f"{meaning}; {one.allowed}", **_varying(one)}


def _described(key: str, one: Kind, default: Any = None, schema: Schema | Mapping[str, Any] | None = None) -> Schema:
    section, _, word = key.rpartition(".")
    meaning = attributes(Thresholds.__doc__ or "")[word] if section == "divergence" else MEANINGS[key]
    usual = "" if default is None else f"; default {_text(default)}"
    return {"description": f"{meaning}; {one.allowed}{usual}", **_draft7(_varying(one) if schema is None else schema)}


def _text(value: Any) -> str:
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else label_text(value)


def _varying(one: Kind) -> Schema:
    """A value, an axis of them, or a range."""
    others = [{"$ref": "#/definitions/range"}] if one.number else []
    found: Schema = _draft7(_listed(one.schema, others))
    return found


def _listed(value: Mapping[str, Any], others: Iterable[Schema] = ()) -> Schema:
    return {"anyOf": [dict(value), {"type": "array", "items": dict(value), "minItems": 1}, *others]}


def _range() -> Schema:
    count = {"type": "integer", "minimum": 2, "maximum": LONGEST}
    bounds = {"type": "array", "items": [{"type": "number"}, {"type": "number"}, count], "minItems": 3, "maxItems": 3}
    named = {form: {"description": f"[lo, hi, n]: n values, {form} spacing", **bounds} for form in RANGES}
    return {
        "type": "object",
        "properties": named,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _draft7(schema: Any) -> Any:
    """Pydantic writes a newer draft, in which the items of a pair have another name."""
    if isinstance(schema, Mapping):
        return {"items" if key == "prefixItems" else key: _draft7(value) for key, value in schema.items()}
    return [_draft7(item) for item in schema] if isinstance(schema, list) else schema
