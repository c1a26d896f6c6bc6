"""`lr: {from: SWEEP, pick: best | 0.5*max_lr, per: cell}`: each cell at a rate that another sweep measured for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keel_lab.errors import Problem
from keel_lab.spec.kind import nearest
from keel_lab.spec.node import Node

KEYS = ("from", "pick", "per", "rates")
BEST, CELL = "best", "cell"
PICK = re.compile(r"(?:(\d+\.?\d*|\.\d+)\s*\*\s*)?max_lr")
PICK_ALLOWED = "must be best (of a grid sweep), or a multiple of the Max LR of a ramp sweep such as 0.5*max_lr"
_FORM = "{from: SWEEP, pick: best}, or pick: 0.5*max_lr"


@dataclass(frozen=True)
class LrChoice:
    """Where the peak LR of each cell comes from.

    Attributes:
        sweep: name of the sweep, in storage, that measured it.
        pick: `best` (the LR of the lowest mean validation loss of a grid sweep), or `max_lr` times a factor.
        rates: the LR of each cell by the cell's name (`keel 16 blocks`), once chosen: they count from then on.
        place: where it stands in the file, for messages.
    """

    sweep: str
    pick: str
    rates: Mapping[str, float] = field(default_factory=dict)
    place: str = field(default="", compare=False)

    @property
    def factor(self) -> float | None:
        """What Max LR is multiplied with; None for `best`."""
        match = PICK.fullmatch(self.pick)
        return None if match is None else float(match[1] or 1)

    @property
    def words(self) -> str:
        """For labels: `0.5*max_lr of table1`."""
        return f"{self.pick} of {self.sweep}"

    def to_json(self) -> dict[str, Any]:
        """As in the sweep file; `from_json` inverts it."""
        rates = {"rates": dict(self.rates)} if self.rates else {}
        return {"from": self.sweep, "pick": self.pick, "per": CELL, **rates}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LrChoice:
        """Inverse of `to_json`."""
        return cls(data["from"], data["pick"], data.get("rates", {}))


def is_choice(node: Node) -> bool:
    """Whether what stands under `lr` is meant as a choice, and not as a value, a list or a range."""
    return node.mapping is not None and any(key in KEYS for key in node.mapping)


def read(key: str, node: Node, problems: list[Problem]) -> LrChoice | None:
    """The choice that stands under `key`; None if something is wrong with it, which is added to `problems`."""
    entries, before = dict(node.mapping or {}), len(problems)

    def refuse(word: str, found: str, allowed: str, near: str | None = None) -> None:
        place = entries[word].place if word in entries else node.place
        problems.append(Problem(place, f"{key}.{word}", found, allowed, near))

    for word, given in entries.items():
        if word not in KEYS:
            refuse(word, "an unknown key", f"allowed here: {', '.join(KEYS)}; such as {_FORM}", nearest(word, KEYS))
        elif word != "rates" and not isinstance(given.value, str):
            refuse(word, given.found(), f"must be text, as in {_FORM}")
    for word in ("from", "pick"):
        if word not in entries:
            refuse(word, "nothing", f"required beside the others: {_FORM}")
    pick, per = _text(entries, "pick", BEST), _text(entries, "per", CELL)
    if pick != BEST and (match := PICK.fullmatch(pick)) is None:
        refuse("pick", pick, PICK_ALLOWED, nearest(pick, (BEST, "max_lr")))
    elif pick != BEST and match is not None and float(match[1] or 1) == 0:
        refuse("pick", pick, "must be above 0 times max_lr")
    if per != CELL:
        refuse("per", per, "must be cell: each architecture, depth and other axes at its own", CELL)
    rates = _rates(entries.get("rates"), refuse) if "rates" in entries else {}
    if len(problems) > before:
        return None
    return LrChoice(_text(entries, "from", ""), pick.replace(" ", ""), rates, node.place)


def _text(entries: Mapping[str, Node], word: str, default: str) -> str:
    value = entries[word].value if word in entries else None
    return value if isinstance(value, str) else default


def _rates(node: Node | None, refuse: Any) -> dict[str, float]:
    found = {}
    entries = None if node is None else node.mapping
    for cell, given in (entries or {}).items():
        value = given.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
            refuse("rates", f"{cell}: {given.found()}", "must be an LR above 0 for each cell")
        else:
            found[cell] = float(value)
    if entries is None and node is not None:
        refuse(
            "rates",
            node.found(),
            "holds the LRs that were chosen: {keel 16 blocks: 1e-3}; remove it to have them chosen",
        )
    return found
