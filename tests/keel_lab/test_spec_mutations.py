"""Whatever happens to a sweep file, it is read or refused with a message for the user; nothing else is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from ruamel.yaml import YAML

from keel_lab.architecture import Catalogue, CorpusFacts
from keel_lab.errors import SpecError
from keel_lab.plan import expand
from keel_lab.spec import SweepSpec, node
from keel_lab.spec.schema import sweep_schema
from keel_lab.spec.writing import to_yaml

Reader = Callable[..., SweepSpec]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["L", "sqrt(L)", "10%", "2GiB", "90m", "off", "keel", "log", "paper", "1e-4", "L^999", "a:b"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["log", "linear", "blocks", "sublayers", "alpha", "x"]), inner, max_size=2),
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "width",
        "alpha",
        "lr",
        "seed",
        "depth",
        "ramp",
        "schedule",
        "preset",
        "warmup",
        "model.width",
        "steps",
        "eps",
        "text",
        "init_seed",
        "",
        "1",
        "<<",
        "per_architecture",
        "first",
        "fraction",
        "kind",
        "warmup_steps",
    ]
)


def paths(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [at] * bool(at) + [path for key, child in children for path in paths(child, (*at, key))]


@st.composite
def mutated(draw: st.DrawFn, text: str) -> dict[str, Any]:
    tree = YAML(typ="safe", pure=True).load(text)
    for _ in range(draw(st.integers(1, 4))):
        known = paths(tree)
        if not known:
            break
        *above, key = draw(st.sampled_from(known))
        parent = tree
        for step in above:
            parent = parent[step]
        change = draw(st.sampled_from(["drop", "set", "rename"]))
        if change == "set" or isinstance(parent, list):
            parent[key] = draw(VALUES)
        else:
            value = parent.pop(key)
            if change == "rename":
                parent[draw(KEYS)] = value
    return tree


def as_yaml(value: Any) -> str:
    """Flow style, with strings both quoted and bare, as users write them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!s}: {as_yaml(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    if isinstance(value, str):
        return value if value.isalnum() else "'" + value.replace("'", "''") + "'"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return repr(value)


def check(text: str, overrides: list[str], read: Reader, catalogue: Catalogue, facts: CorpusFacts) -> None:
    try:
        spec = read(text, *overrides)
    except SpecError as error:
        check_messages(error)
        return
    if not overrides:
        assert refused_by_schema(text, catalogue) is None  # the schema refuses nothing that is good
    again = read(to_yaml(spec.document))
    assert again.document == spec.document
    plan = expand(spec, catalogue, facts)
    assert [one.trial.id for one in expand(again, catalogue, facts).trials] == [one.trial.id for one in plan.trials]
    assert len({planned.trial.id for planned in plan.trials}) == len(plan.trials) > 0
    assert len({planned.name for planned in plan.trials}) == len(plan.trials)


def refused_by_schema(text: str, catalogue: Catalogue) -> str | None:
    """Why the JSON Schema refuses a text, or None."""
    root = node.read(text, "s.yaml", [])
    assert root is not None
    error = best_match(Draft7Validator(sweep_schema(catalogue)).iter_errors(root.plain()))
    return None if error is None else str(error.message)


def check_messages(error: SpecError) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.place.startswith(("s.yaml", "command line"))
        assert all((problem.key, problem.found, problem.allowed))
        assert len(str(problem)) < 1000


MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SOME = settings(MANY, max_examples=120)


@MANY
@given(data=st.data())
def test_mutated_sweeps(
    data: st.DataObject, good: str, grid_text: str, read: Reader, catalogue: Catalogue, facts: CorpusFacts
) -> None:
    text = data.draw(st.sampled_from([good, grid_text]))
    check(as_yaml(data.draw(mutated(text))), [], read, catalogue, facts)


@SOME
@given(data=st.data())
def test_texts_with_pieces_cut_out_or_put_in(
    data: st.DataObject, good: str, grid_text: str, read: Reader, catalogue: Catalogue, facts: CorpusFacts
) -> None:
    text = data.draw(st.sampled_from([good, grid_text]))
    start = data.draw(st.integers(0, len(text)))
    end = min(len(text), start + data.draw(st.integers(0, 12)))
    piece = data.draw(
        st.one_of(st.just(""), st.text(max_size=6), st.sampled_from(["[", "{", "- ", "&x ", "*x", "!!", "\t"]))
    )
    check(text[:start] + piece + text[end:], [], read, catalogue, facts)


@SOME
@given(data=st.data())
def test_any_override(
    data: st.DataObject, good: str, grid_text: str, read: Reader, catalogue: Catalogue, facts: CorpusFacts
) -> None:
    text = data.draw(st.sampled_from([good, grid_text]))
    tree = YAML(typ="safe", pure=True).load(text)
    known = st.sampled_from(paths(tree)).map(lambda path: ".".join(map(str, path)))
    key = data.draw(st.one_of(known, KEYS, KEYS.map(lambda word: f"grid.{word}"), st.text(max_size=8)))
    value = data.draw(st.one_of(VALUES.map(as_yaml), st.text(max_size=8)))
    check(text, [f"{key}={value}"], read, catalogue, facts)
