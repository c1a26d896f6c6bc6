"""A table for a paper: LaTeX with booktabs, numbers as mathematics, the notes below it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.tables.layout import Group, Table

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}
# a bound, a number in scientific notation, or both: > 0.1, 2.51e-2, < 3.00e-4
_NUMBER = re.compile(r"(?<![\w.^])(?:([<>]=?) )?(\d+(?:\.\d+)?)(?:e(-?\d+))?(?![\w^])")
_BEHIND = re.compile(r"(\S[^\[(]*) (\[.+\]|\(.+\))( \*)?")  # 2.38 [2.35, 2.41] *
_SIGN = {"": "", "<": "< ", ">": "> ", "<=": r"\leq ", ">=": r"\geq "}


def to_latex(table: Table, label: str) -> str:
    """A `table` environment; its first line says which package it needs.

    Args:
        table: what to typeset.
        label: for references, after `tab:`.
    """
    columns = "l" * len(table.stub) + "c" * sum(len(group.columns) for group in table.groups)
    head = [*table.stub, *(name for group in table.groups for name in group.columns)]
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex(table.title)}.}}",
        rf"  \label{{tab:{re.sub(r'[^A-Za-z0-9:.-]+', '-', label)}}}",
        "",
        r"  \smallskip",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",  # no wider than the text
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *_over(table),
        _row(head, len(head)),
        r"    \midrule",
        *(_row(row, len(table.stub)) for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}}",
        "",
        r"  \medskip",
        r"  \begin{minipage}{\linewidth}\footnotesize",
        *(rf"    {latex(note)}\par" for note in table.notes),
        r"  \end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """The text with LaTeX's own characters escaped and bounds and powers of ten as mathematics."""
    parts, at = [], 0
    for match in _NUMBER.finditer(text):
        sign, mantissa, exponent = match.groups()
        if sign is None and exponent is None:
            continue
        power = "" if exponent is None else rf" \times 10^{{{int(exponent)}}}"
        parts += [_escaped(text[at : match.start()]), f"${_SIGN[sign or '']}{mantissa}{power}$"]
        at = match.end()
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    plain = "".join(_SPECIAL.get(character, character) for character in text)
    return re.sub(r"[<>]=?", lambda match: f"${_SIGN[match[0]].rstrip()}$", plain)


def _over(table: Table) -> list[str]:
    """The row of group headings with its rules."""
    cells, rules, at = [""] * len(table.stub), [], len(table.stub) + 1
    for group in table.groups:
        cells.append(_spanned(group))
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(group.columns) - 1}}}")
        at += len(group.columns)
    return [f"    {' & '.join(cells)} \\\\", f"    {' '.join(rules)}"]


def _spanned(group: Group) -> str:
    return rf"\multicolumn{{{len(group.columns)}}}{{c}}{{{latex(group.heading)}}}"


def _row(words: Sequence[str], stub: int) -> str:
    cells = [*map(latex, words[:stub]), *map(_cell, words[stub:])]
    return f"    {' & '.join(cells)} \\\\"


def _cell(text: str) -> str:
    """A cell; what stands behind its value in brackets, such as an interval, goes on a line below, for width."""
    parts = _BEHIND.fullmatch(text)
    if parts is None:
        return latex(text)
    value, behind, mark = map(latex, parts.groups(default=""))
    return rf"\begin{{tabular}}[t]{{@{{}}c@{{}}}}{value}{mark} \\ {{\footnotesize {behind}}}\end{{tabular}}"
