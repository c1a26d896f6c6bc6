"""Values with a unit in the text: `2GiB`, `90m`, `10%`."""

from __future__ import annotations

import math
import re
from fractions import Fraction

MEMORY = "an amount such as 2GiB, 512MiB or 2GB; a bare integer is in bytes; at least 1MiB"
DURATION = "a time such as 90m, 2h or 1h30m; a bare number is in seconds; or null for no bound"
PERCENTAGE = (
    "a percentage under 100% such as 10%; a bare number could be steps or a fraction: give steps as warmup_steps"
)

_MEMORY_UNITS = {
    f"{prefix}{kind}": base**power
    for power, prefix in enumerate(("K", "M", "G", "T"), start=1)
    for kind, base in (("iB", 1024), ("B", 1000))
}
_TIME_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = r"[0-9]+(\.[0-9]+)?"
MEMORY_SCHEMA = {
    "anyOf": [{"type": "integer", "minimum": 1024**2}, {"type": "string", "pattern": rf"^{_NUMBER}\s*[KMGT]i?B$"}]
}
DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": rf"^({_NUMBER}\s*[dhms]\s*)+$"},
        {"type": "null"},
    ]
}
PERCENTAGE_SCHEMA = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)\s*%$"}
_LEAST_MEMORY = 1024**2
_LONGEST = 40  # characters; a longer one is a slip, and slow to compute with


def memory_bytes(value: object) -> int:
    """Bytes of `2GiB`, `512MiB`, `2GB` or a plain integer.

    Raises:
        ValueError: if it is none of these, or under 1 MiB.
    """
    amount: Fraction | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        amount = Fraction(value)
    elif isinstance(value, str) and len(value) <= _LONGEST:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]i?B)", value)
        if match:
            amount = Fraction(match[1]) * _MEMORY_UNITS[match[2]]
    if amount is None or not _LEAST_MEMORY <= amount <= 2**53:
        raise ValueError(MEMORY)
    return int(amount)


def seconds(value: object) -> float:
    """Seconds of `90m`, `2h`, `1h30m` or a plain number.

    Raises:
        ValueError: if it is none of these, or not a finite number above 0.
    """
    total = 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        total = float(value)
    elif (
        isinstance(value, str)
        and len(value) <= _LONGEST
        and re.fullmatch(r"(?:[0-9]+(?:\.[0-9]+)?\s*[dhms]\s*)+", value)
    ):
        parts = re.findall(r"([0-9.]+)\s*([dhms])", value)
        units = [unit for _, unit in parts]
        if units == sorted(set(units), key="dhms".index):
            total = sum(float(number) * _TIME_UNITS[unit] for number, unit in parts)
    if not (math.isfinite(total) and total > 0):
        raise ValueError(DURATION)
    return total


def fraction(value: object) -> Fraction:
    """The exact fraction of `10%` or `12.5%`.

    Raises:
        ValueError: if it is no percentage in [0%, 100%).
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%", value) if isinstance(value, str) else None
    if match is None or len(match[1]) > _LONGEST or not (share := Fraction(match[1]) / 100) < 1:
        raise ValueError(PERCENTAGE)
    return share


def percentage(value: object) -> str:
    """The one spelling of a percentage: `10%` for `10.0 %`.

    Raises:
        ValueError: as `fraction`.
    """
    share = fraction(value) * 100
    return f"{float(share):g}%" if Fraction(f"{float(share):g}") == share else f"{float(share)!r}%"


def warmup_steps(share: str, steps: int) -> int:
    """The whole number of steps nearest to a percentage of `steps`; halves go up."""
    return math.floor(fraction(share) * steps + Fraction(1, 2))
