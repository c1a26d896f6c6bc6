"""How a value is written in names, tables and tags: short, yet exact: no two values look alike (CASES 11)."""

from __future__ import annotations

import math
import re


def label_text(value: str | float | bool) -> str:
    """The shortest text that reads back as `value`: `1e-5`, `0.01`, `600`, `true`, `L^0.25`.

    A float is written with the fewest digits that tell it from every other float; whole ones lose their `.0`, since 1
    and 1.0 are one value in a sweep.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    mantissa, _, exponent = re.sub(r"\.0$|\.0(?=e)", "", repr(value)).partition("e")
    if not exponent:
        return _scientific(value) if 0 < abs(value) < 1e-3 or abs(value) >= 1e6 else mantissa
    return f"{mantissa}e{int(exponent)}"


def _scientific(value: float) -> str:
    digits = len(re.sub(r"e.*|[-.]", "", repr(value)).strip("0"))
    mantissa, _, exponent = f"{value:.{max(digits - 1, 0)}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def duration_text(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`: an estimate, so two units at most; `?` if it is not known."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
