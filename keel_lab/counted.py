"""`1 trial`, `2 trials`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural where it is one."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"
