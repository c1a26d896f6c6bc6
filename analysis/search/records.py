"""A search as flat records: a row a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.search import words
from analysis.search.findings import Measured, Search


def records(searches: Sequence[Search]) -> list[dict[str, Any]]:
    """For CSV: every point with its values, and what the best gave when measured again."""
    names = list(dict.fromkeys(one.name for search in searches for one in search.parameters))
    objectives = list(dict.fromkeys(one.name for search in searches for one in search.objectives))
    return [row for search in searches for row in _rows(search, names, objectives)]


def _rows(search: Search, names: Sequence[str], objectives: Sequence[str]) -> list[dict[str, Any]]:
    again = {best.point.number: best.again for best in search.best}
    rank = {best.point.number: place for place, best in enumerate(search.best, start=1)}
    keys = {one.name: one.key for one in search.parameters}
    rows = []
    for point in search.points:
        trial = point.trials[0].trial
        told = dict(zip((one.name for one in search.objectives), point.told or (), strict=False))
        row: dict[str, Any] = {
            "sweep": search.sweep.stored.name,
            "search": search.name,
            "point": point.number,
            "state": str(point.state),
            "best": rank.get(point.number),
            "architecture": trial.architecture,
            "blocks": trial.blocks,
            "sublayers": trial.sublayers,
            "width": trial.model.width,
            "parameters": point.trials[0].parameters,
            "diverged": point.facts.get("diverged", 0),
            "censored": point.facts.get("censored", 0),
            "why": point.facts.get("why"),
            "alpha_over_L": words.alpha_in_units(point),
            "trials": [planned.trial.id for planned in point.trials],
        }
        row |= {f"parameter.{name}": point.values.get(keys.get(name, "")) for name in names}
        row |= {f"drawn.{name}": point.drawn.get(name) for name in names}
        for name in objectives:
            row |= {name: told.get(name), **_again(name, again.get(point.number, {}).get(name))}
        rows.append(row)
    return rows


def _again(name: str, measured: Measured | None) -> dict[str, Any]:
    keys = ("again", "again_low", "again_high", "again_n", "again_lost")
    values: tuple[Any, ...] = (None,) * len(keys)
    if measured is not None and measured.max_lr is not None:
        one = measured.max_lr
        ends = (None, None) if one.interval is None else (one.interval.low, one.interval.high)
        values = (one.median, *ends, one.n, 0)
    elif measured is not None:
        found = measured.mean
        numbers = (None, None, None, 0) if found is None else (found.value, found.low, found.high, found.n)
        values = (*numbers, measured.lost)
    return {f"{name}.{key}": value for key, value in zip(keys, values, strict=True)}
