"""The sweep file key by key, as Markdown: made from the very tables that check it, so it cannot fall behind."""

from __future__ import annotations

from collections.abc import Iterable

from keel_lab.architecture import Catalogue
from keel_lab.detect.thresholds import Thresholds
from keel_lab.spec import fields, kind, lr_choice, search_reading
from keel_lab.spec.label import label_text
from keel_lab.spec.meanings import MEANINGS, attributes
from keel_lab.spec.reading import FIXED

Row = tuple[str, ...]

_HEAD = """# The sweep file, key by key

Written by `keel-lab schema --format md` from the tables that check a sweep file; a test holds the two together.

A bare list is an axis, a scalar a constant; `{log: [lo, hi, n]}` and `{linear: [lo, hi, n]}` are ranges. Every key of
`model`, `train`, `ramp` and `schedule` can be an axis, where it stands or under `grid` (there by its own name, or
dotted where that has two meanings: `model.width`). On the command line every key is `key.path=value`, after the file.
"""


def markdown(catalogue: Catalogue) -> str:
    """The page, with the options of these architectures."""
    parts = [_HEAD, "## Top", _table(("key", "what it is"), (_top(key) for key in fields.TOP)), *_grid()]
    for name in fields.TOP:
        if name in ("model", "train", *fields.SCHEDULES, *FIXED):
            parts += [f"## {name}", f"{_capital(MEANINGS[name])}.", *_section(name)]
        elif name == "search":
            parts += ["## search", f"{_capital(MEANINGS[name])}.", _table(("key", "what it is"), _search())]
    parts += ["## Options of architectures", _OPTIONS, _table(("architecture", *_COLUMNS), _options(catalogue))]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


_COLUMNS = ("key", "what it is", "may be", "default")
_OPTIONS = (
    "They stand under `grid` (for every architecture that has them) or under `per_architecture`. A rule is a number or "
    "a formula in L, the number of sub-layers, such as `L`, `sqrt(L)`, `L^0.25`, `2L`."
)


def _top(key: str) -> Row:
    anchored = key in ("grid", "model", "train", *fields.SCHEDULES, "search", *FIXED)
    return f"[`{key}`](#{key})" if anchored else f"`{key}`", MEANINGS[key]


def _grid() -> list[str]:
    words = ("architecture", "depth", "depth.blocks", "depth.sublayers", *fields.SEEDS)
    rows = [(f"`{word}`", MEANINGS[f"grid.{word}"]) for word in words]
    choice = [(f"`lr.{word}`", MEANINGS[f"lr.{word}"]) for word in lr_choice.KEYS]
    rows.append(("`lr`", f"protocol grid: {MEANINGS['schedule.lr']}"))
    return ["## grid", f"{_capital(MEANINGS['grid'])}.", _table(("key", "what it is"), [*rows, *choice])]


def _section(name: str) -> list[str]:
    defaults = fields.defaults(name)
    explained = attributes(Thresholds.__doc__ or "") if name == "divergence" else {}
    rows: list[Row] = []
    if name == "ramp":
        rows.append(("`preset`", MEANINGS["ramp.preset"], f"one of {', '.join(fields.PRESETS)}", "none"))
    for key, one in fields.section(name).items():
        meaning = explained[key] if explained else MEANINGS[f"{name}.{key}"]
        default = defaults.get(key)
        rows.append((f"`{key}`", meaning, _allowed(one.allowed), "none" if default is None else f"`{_text(default)}`"))
    return [_table(_COLUMNS, rows)]


def _search() -> Iterable[Row]:
    for key in search_reading.KEYS:
        yield f"`{key}`", MEANINGS[f"search.{key}"]


def _options(catalogue: Catalogue) -> Iterable[Row]:
    for name in catalogue.names():
        for word, option in catalogue.declaration(name).options.items():
            allowed = _allowed(kind.of_option(option).allowed)
            yield f"`{name}`", f"`{word}`", option.help, allowed, f"`{_text(option.default)}`"


def _allowed(text: str) -> str:
    return text.removeprefix("must be ")


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return label_text(value) if isinstance(value, str | int | float | bool) else str(value)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _table(headings: Row, rows: Iterable[Row]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(word.replace("|", "\\|") for word in row) + " |" for row in lines)
