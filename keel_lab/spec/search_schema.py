"""The section `search` as JSON Schema: names and shapes; what a parameter may be, only `keel-lab validate` knows."""

from __future__ import annotations

from typing import Any

from keel_lab.search.samplers import names
from keel_lab.spec.meanings import MEANINGS
from keel_lab.spec.search import ALL, CELL, DIRECTIONS
from keel_lab.spec.search_reading import COUNTS, KEYS

Schema = dict[str, Any]


def search_schema() -> Schema:
    """Of the section."""
    properties = {key: {"description": MEANINGS[f"search.{key}"], **_key(key)} for key in KEYS}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _key(key: str) -> Schema:
    if key in COUNTS:
        low, high = COUNTS[key]
        return {"type": ["integer", "null"], "minimum": low, "maximum": high}
    match key:
        case "per":
            return {"enum": [CELL, ALL, None]}
        case "sampler" | "pruner":
            return _named(names(key))
        case "objectives":
            return {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}, _objectives()]}
        case "remeasure":
            return {"anyOf": [_counts("best", "seeds"), {"enum": ["off", False]}]}
    return {"type": ["object", "null"]}


def _named(known: tuple[str, ...]) -> Schema:
    name: Schema = {"enum": list(known)}
    return {"anyOf": [name, {"type": "object", "properties": {"name": name}, "required": ["name"]}, {"type": "null"}]}


def _objectives() -> Schema:
    return {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [_direction(), {"type": "object"}]}}


def _direction() -> Schema:
    return {"enum": list(DIRECTIONS)}


def _counts(*keys: str) -> Schema:
    entries = {key: {"type": "integer", "minimum": 0, "maximum": 1000} for key in keys}
    return {"type": ["object", "null"], "properties": entries, "additionalProperties": False}
