from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel_lab.spec import rule


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("L", 32.0),
        ("2L", 64.0),
        ("2*L", 64.0),
        (" 2 * L ", 64.0),
        ("0.5L", 16.0),
        (".5L", 16.0),
        ("L/2", 16.0),
        ("L^2", 1024.0),
        ("L**2", 1024.0),
        ("2L^2", 2048.0),
        ("L^0.25", 32**0.25),
        ("L^-0.25", 32**-0.25),
        ("L^(1/4)", 32**0.25),
        ("L^(-1/4)", 32**-0.25),
        ("sqrt(L)", math.sqrt(32)),
        ("2sqrt(L)", 2 * math.sqrt(32)),
        ("sqrt(2L)", 8.0),
        ("(4L)^-0.25", 128**-0.25),
        ("1/sqrt(L)", 1 / math.sqrt(32)),
        ("1/(2*L)", 1 / 64),
        ("L*L/4", 256.0),
        ("1e-1L", 3.2),
        ("7", 7.0),
    ],
)
def test_rules(text: str, value: float) -> None:
    assert rule.resolve(text, 32) == value
    assert rule.resolve(rule.canonical(text), 32) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "l",
        "L+1",
        "-L",
        "L^",
        "L^L",
        "^2",
        "(L",
        "L)",
        "sqrt L",
        "sqrt()",
        "L/2L",
        "L2",
        "2 3L",
        "1 2",
        "L//2",
        "LL" * 40,
        "__import__('os')",
        "L.real",
        "inf",
        "nan",
        "1e5e5",
        "(((((L",
        "L^(1/0)",
        "²L",
        "L\n+1",
        "1__0",
    ],
)
def test_what_is_no_rule_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(rule.RuleError, match=r"."):
        rule.resolve(text, 32)


@pytest.mark.parametrize("text", ["L^999", "1/(L^-999)", "1e308*L", "1/0", "0^-1", "1e999"])
def test_a_value_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(rule.RuleError, match="finite"):
        rule.resolve(text, 64)


@given(st.text(alphabet="L0123456789.^*/()+- sqrte", max_size=70))
def test_any_text_is_a_finite_number_or_a_rule_error(text: str) -> None:
    try:
        value = rule.resolve(text, 6)
    except rule.RuleError:
        return
    assert math.isfinite(value)
    assert rule.resolve(rule.canonical(text), 6) == value
