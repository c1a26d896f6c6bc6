"""Thresholds on a command line: `divergence.KEY=VALUE`, read by the sweep file's own rules."""

from __future__ import annotations

from collections.abc import Sequence

from keel_lab.detect.thresholds import Thresholds
from keel_lab.errors import Problem, SpecError
from keel_lab.spec import axis, fields
from keel_lab.spec.kind import nearest
from keel_lab.spec.node import Node, read

_SECTION = "divergence"
_FORM = "only thresholds can be set here: divergence.KEY=VALUE, such as divergence.confirm_samples=50"


def overridden(thresholds: Thresholds, overrides: Sequence[str]) -> Thresholds:
    """The thresholds with the overrides in them.

    Raises:
        SpecError: with everything wrong with the overrides.
    """
    problems: list[Problem] = []
    given: dict[str, object] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        place = f"command line: {text}"
        section, dot, name = key.partition(".")
        kinds = fields.section(_SECTION)
        if not equals or section != _SECTION or not dot:
            near = nearest(section, kinds) if equals and not dot else None
            hint = f"{_SECTION}.{near}" if near else None
            problems.append(
                Problem("command line", key or text, "no threshold" if equals else "no override", _FORM, hint)
            )
        elif name not in kinds:
            near = nearest(name, kinds)
            allowed = f"allowed here: {', '.join(kinds)}"
            problems.append(Problem(place, key, "an unknown key", allowed, f"{_SECTION}.{near}" if near else None))
        elif name in given:
            problems.append(Problem(place, key, "a second time", "each key is given once on a command line"))
        else:
            given[name] = _value(key, value, place, problems)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return Thresholds(**{**thresholds.model_dump(), **given})


def _value(key: str, text: str, place: str, problems: list[Problem]) -> object:
    kind = fields.section(_SECTION)[key.partition(".")[2]]
    try:
        node = read(text, "command line", problems, whole_place=place) or Node(None, "", place)
    except SpecError as error:
        problems.extend(Problem(item.place, key, item.found, item.allowed) for item in error.problems)
        return None
    values = axis.read(key, node, kind, problems, single="one value a threshold").values
    return values[0] if values else None
