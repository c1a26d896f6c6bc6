from __future__ import annotations

import math

import pytest

from keel_lab.errors import Problem, SpecError
from keel_lab.spec import node


def tree(text: str) -> node.Node:
    problems: list[Problem] = []
    root = node.read(text, "s.yaml", problems)
    assert root is not None
    assert problems == []
    return root


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3e6", 3e6),
        (".5", 0.5),
        (".5e3", 500.0),
        ("1.", 1.0),
        ("+7", 7),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 17),
        ("1_000", "1_000"),
        ("off", "off"),
        ("no", "no"),
        ("y", "y"),
        ("True", True),
        ("~", None),
        ("null", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("'5'", "5"),
        ('"1e-4"', "1e-4"),
        ("10%", "10%"),
        ("-.inf", -math.inf),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    got = tree(f"key: {text}").plain()["key"]
    assert got == value
    assert type(got) is type(value)


def test_every_value_knows_its_line_and_how_it_was_written() -> None:
    root = tree("a: 1\nb:\n  c: [1e-4,\n      3]\n  d: 'x'\n")
    assert root.mapping is not None
    inner = root.mapping["b"].mapping
    assert inner is not None
    first, second = inner["c"].items or ()
    assert root.mapping["b"].place == "s.yaml:2"
    assert (first.place, first.found(), second.place) == ("s.yaml:3", "1e-4", "s.yaml:4")
    assert (inner["d"].place, inner["d"].found()) == ("s.yaml:5", '"x"')


def test_a_key_given_twice_is_a_problem_at_its_second_line() -> None:
    problems: list[Problem] = []
    node.read("a: {b: 1}\nc: 2\na: 3\n", "s.yaml", problems)
    assert [(problem.place, problem.key) for problem in problems] == [("s.yaml:3", "a")]
    assert "line 1" in problems[0].found


@pytest.mark.parametrize("text", ["a: !!int 3", "a: !mine [1]", "a: !mine {b: 1}"])
def test_tags_are_refused(text: str) -> None:
    problems: list[Problem] = []
    node.read(text, "s.yaml", problems)
    assert ["tag" in problem.found for problem in problems] == [True]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", "s.yaml:3", "starts at line 2"),
        ("a: 1\n\tb: 2\n", "s.yaml:2", "indent with spaces"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2", "one document"),
        ("a: *nowhere\n", "s.yaml:1", "alias"),
        ("a: 1\nb: \x00\n", "s.yaml:2", "no YAML"),
        ('a: "\\U99999999"\n', "s.yaml", "no YAML"),
        ("a: &x [*x]\n", "s.yaml:1", "never ends"),
        ("[" * 1500, "s.yaml", "nested too deeply"),
    ],
)
def test_text_that_is_no_yaml_is_one_clear_error(text: str, place: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        node.read(text, "s.yaml", [])
    (problem,) = caught.value.problems
    assert problem.place == place
    assert says in str(problem)
    assert "\n" not in str(problem)


def test_aliases_that_multiply_without_bound_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SpecError, match="never ends"):
        node.read("\n".join(lines), "s.yaml", [])


def test_an_alias_stands_for_its_value() -> None:
    assert tree("a: &x [1, 2]\nb: *x").plain()["b"] == [1, 2]
