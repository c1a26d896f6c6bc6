"""A table as rows of words, and its two shapes for reading: aligned text and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDE = 120  # columns of a terminal; a wider text table stacks its groups instead


@dataclass(frozen=True)
class Group:
    """Columns that share a heading, such as a depth; `detail` follows the title where there is room for it."""

    title: str
    columns: tuple[str, ...]
    detail: str = ""

    @property
    def heading(self) -> str:
        """Title and detail."""
        return f"{self.title} ({self.detail})" if self.detail else self.title


@dataclass(frozen=True)
class Table:
    """Words in rows.

    Attributes:
        stub: headings of the leading columns, which name a row.
        rows: each as long as `stub` and all groups' columns together.
        notes: sentences below the table.
    """

    title: str
    stub: tuple[str, ...]
    groups: tuple[Group, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def to_text(table: Table) -> str:
    """Aligned columns for a terminal, groups side by side if they fit into `WIDE` columns, else one below the other."""
    lines = _aligned(table)
    if max(map(len, lines)) > WIDE and len(table.groups) > 1:
        lines = [line for part in _stacked(table) for line in [*_aligned(part), ""]][:-1]
    notes = [textwrap.fill(note, WIDE, initial_indent="- ", subsequent_indent="  ") for note in table.notes]
    return "\n".join([table.title, "", *lines, "", *notes]) + "\n"


def to_markdown(table: Table) -> str:
    """A GitHub Markdown table; it has one heading row, so every column carries its group's title."""
    headings = [
        *table.stub,
        *(f"{group.title}: {name}" if group.title else name for group in table.groups for name in group.columns),
    ]
    lines = [_pipe(headings), _pipe(["---"] * len(headings)), *map(_pipe, table.rows)]
    return "\n".join([f"**{table.title}**", "", *lines, "", *(f"- {note}" for note in table.notes)]) + "\n"


def _pipe(words: Sequence[str]) -> str:
    return "| " + " | ".join(word.replace("|", "\\|") for word in words) + " |"


def _stacked(table: Table) -> list[Table]:
    parts, start = [], len(table.stub)
    for group in table.groups:
        end = start + len(group.columns)
        rows = tuple(row[: len(table.stub)] + row[start:end] for row in table.rows)
        parts.append(Table(table.title, table.stub, (group,), rows, ()))
        start = end
    return parts


def _aligned(table: Table) -> list[str]:
    headings = (*table.stub, *(name for group in table.groups for name in group.columns))
    widths = [max(map(len, column)) for column in zip(headings, *table.rows, strict=True)]
    over, at = [" " * (sum(widths[: len(table.stub)]) + 2 * len(table.stub) - 2)] if table.stub else [], len(table.stub)
    for group in table.groups:
        span = slice(at, at + len(group.columns))
        short = len(group.heading) - (sum(widths[span]) + 2 * len(group.columns) - 2)
        widths[span.stop - 1] += max(0, short)
        over.append(group.heading.ljust(sum(widths[span]) + 2 * len(group.columns) - 2))
        at = span.stop
    body = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in table.rows]
    head = "  ".join(word.ljust(width) for word, width in zip(headings, widths, strict=True))
    return [line.rstrip() for line in ("  ".join(over), head, "  ".join("-" * width for width in widths), *body)]
