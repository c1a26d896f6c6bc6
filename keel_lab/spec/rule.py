"""Numbers that grow with depth: rules in L, the number of sub-layers, such as `L^0.25`, `2 sqrt(L)` or `(4L)^-0.25`.

    rule  := power (("*" | "/" | nothing) power)*
    power := atom ["^" exponent]                      exponent := [sign] number | "(" [sign] number ["/" number] ")"
    atom  := number | "L" | "sqrt(" rule ")" | "(" rule ")"

A rule is parsed, never evaluated as code. After a division, and before a number,
a factor needs its sign (`L/2L` could be read two ways).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

EXAMPLES = "a number, or a rule in L, the number of sub-layers (2L, L/2, L^0.25, sqrt(L), (4L)^-0.25)"
WORDS = ("L", "2L", "L/2", "sqrt(L)", "L^0.25")

_TOKEN = re.compile(r"\s*(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|sqrt|[L()^*/+-])")
PATTERN = r"^[0-9.eEL()*/^+\-\ssqrt]{1,60}$"  # what a rule is written with
_LONGEST = 60  # characters; keeps nesting far from the interpreter's recursion limit

_Term = Callable[[float], float]


class RuleError(ValueError):
    """The text is no rule, or it has no finite value at some depth."""


def canonical(text: str) -> str:
    """One spelling for a rule that parses: no spaces, `^` for `**`, `2L` for `2*L`."""
    dense = re.sub(r"\s+", "", text).replace("**", "^")
    return re.sub(r"\*(?=[L(s])", "", dense) if "/" not in dense else dense


@lru_cache(maxsize=1024)
def parse(text: str) -> _Term:
    """The rule as a function of L.

    Raises:
        RuleError: if `text` is no rule.
    """
    if len(text) > _LONGEST:
        raise RuleError(f"a rule has at most {_LONGEST} characters")
    tokens, position, source = [], 0, text.replace("**", "^").rstrip()
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise RuleError(f"{source[position:].strip()!r} has no place in a rule")
        tokens.append(match.group().strip())
        position = match.end()
    reader = _Reader(tokens)
    term = reader.product()
    if reader.peek():
        raise RuleError(f"{reader.peek()!r} has no place in a rule")
    return term


def resolve(rule: float | str, sublayers: int) -> float:
    """The number that a rule stands for at a depth of `sublayers`.

    Raises:
        RuleError: if it is no rule, or its value there is not a finite number.
    """
    term = parse(rule) if isinstance(rule, str) else None
    try:
        value = term(float(sublayers)) if term else float(rule)
    except (ArithmeticError, ValueError) as error:  # ValueError: 0 to a negative power
        raise RuleError(f"has no finite value at L = {sublayers}") from error
    if not math.isfinite(value):
        raise RuleError(f"has no finite value at L = {sublayers}")
    return value


class _Reader:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if wanted and token != wanted:
            raise RuleError(f"{wanted!r} is missing")
        self._next += 1
        return token

    def product(self) -> _Term:
        value, divided = self.power(), False
        while self.peek() not in ("", ")", "^", "+", "-"):
            sign = self.take() if self.peek() in ("*", "/") else ""
            if not sign and (divided or self.peek()[0] in "0123456789."):
                raise RuleError(f"{self.peek()!r} needs a `*` or `/` before it")
            divided = sign == "/"
            value = _quotient(value, self.power()) if divided else _product(value, self.power())
        return value

    def power(self) -> _Term:
        atom = self.atom()
        if self.peek() != "^":
            return atom
        self.take()
        exponent = self.exponent()
        return lambda sublayers: math.pow(atom(sublayers), exponent)

    def atom(self) -> _Term:
        token = self.take()
        if token == "L":
            return lambda sublayers: sublayers
        if token == "sqrt":
            self.take("(")
            inside = self.product()
            self.take(")")
            return lambda sublayers: math.sqrt(inside(sublayers))
        if token == "(":
            inside = self.product()
            self.take(")")
            return inside
        number = self._number(token)
        return lambda sublayers: number

    def exponent(self) -> float:
        if self.peek() != "(":
            return self._signed()
        self.take()
        value = self._signed()
        if self.peek() == "/":
            self.take()
            divisor = self._number(self.take())
            if divisor == 0:
                raise RuleError("an exponent divides by zero")
            value /= divisor
        self.take(")")
        return value

    def _signed(self) -> float:
        sign = -1.0 if self.peek() == "-" else 1.0
        if self.peek() in ("-", "+"):
            self.take()
        return sign * self._number(self.take())

    def _number(self, token: str) -> float:
        if not token or token[0] not in "0123456789.":
            raise RuleError(f"{token!r} stands where a number or L belongs" if token else "it ends too early")
        return float(token)


def _product(left: _Term, right: _Term) -> _Term:
    return lambda sublayers: left(sublayers) * right(sublayers)


def _quotient(left: _Term, right: _Term) -> _Term:
    return lambda sublayers: left(sublayers) / right(sublayers)
