"""What `keel-lab plan` prints of a search: what is searched, how many points and trials, and how far it has come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keel_lab.columns import aligned
from keel_lab.plan.estimate import makespan, seconds
from keel_lab.search.cells import Points, SearchCell
from keel_lab.search.opening import refuse_other_search
from keel_lab.spec.domain import Domain
from keel_lab.spec.label import duration_text, label_text
from keel_lab.spec.search import Objective, Parameter
from keel_lab.store.points import Point, State
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

if TYPE_CHECKING:
    from keel_lab.plan.opening import OpenedSweep
    from keel_lab.plan.planned import PlannedTrial
    from keel_lab.store.root import Root


def describe_search(opened: OpenedSweep, root: Root, slots: int, *, as_json: bool) -> str:
    """The plan as text or JSON, without a trailing newline.

    Raises:
        UsageError: if storage holds the points of another search of that name.
    """
    assert opened.points is not None
    before = Sweeps(root).find(opened.spec.name)
    refuse_other_search(before, opened)
    summary = _summary(opened, opened.points, () if before is None else before.points, root, slots)
    return json.dumps(summary, indent=2) if as_json else _text(summary)


def _summary(opened: OpenedSweep, points: Points, stored: Sequence[Point], root: Root, slots: int) -> dict[str, Any]:
    search, sections = points.search, points.search.sections
    samples = points.samples()
    costs = Trials(root).step_costs([one.trial for one in samples])
    cells = [_cell(points, cell, samples, [one for one in stored if one.cell == cell.number]) for cell in points.cells]
    known = [cost for one in samples if (cost := seconds(one.trial, lambda trial: costs.get(trial.id))) is not None]
    left = sum(cell["trials_left"] for cell in cells)
    estimate = makespan([sum(known) / len(known)] * left, slots) if known and left else None
    return {
        "name": opened.spec.name,
        "protocol": "search",
        "objectives": [_objective(one) for one in search.objectives],
        "sampler": search.sampler.document(),
        "pruner": search.pruner.document(),
        "trials_a_point": len(points.seeds) * len(sections),
        "seeds": list(points.seeds),
        "runs": list(sections),
        "fresh_seeds": list(points.fresh_seeds) if search.remeasure.best else [],
        "measured_again": search.remeasure.best,
        "begins_with": len(search.warm_start.points) + len(search.warm_start.drawn or ()),
        "searches": cells,
        "trials": sum(cell["trials"] for cell in cells),
        "left": {"trials": left},
        "estimate": {"seconds": estimate, "slots": slots},
        "corpus": {"source": opened.facts.source, "tokens": opened.facts.tokens, "vocab": opened.facts.vocab},
    }


def _cell(points: Points, cell: SearchCell, samples: Sequence[PlannedTrial], stored: Sequence[Point]) -> dict[str, Any]:
    search = points.search
    most = points.most(cell)
    here = [one for one in samples if _of(cell, one)]
    sublayers = sorted({one.trial.sublayers for one in here})
    asked = [one for one in stored if not one.fresh]
    ended = sum(one.state is not State.RUNNING for one in asked)
    remeasured = sum(one.state is not State.RUNNING for one in stored if one.fresh)
    size, again = len(points.seeds) * len(search.sections), len(points.fresh_seeds) * len(search.sections)
    return {
        "search": cell.name,
        "space": [_parameter(one, sublayers) for one in points.all_parameters(cell)],
        "points": most,
        "asked": len(asked),
        "ended": ended,
        "measured_again": remeasured,
        "trials": most * size + search.remeasure.best * again,
        "trials_left": max(0, most - ended) * size + max(0, search.remeasure.best - remeasured) * again,
        "parameters": sorted({one.parameters for one in here}),
        "steps": sorted({one.trial.schedule.steps for one in here}),
        "tokens": sorted({one.trial.tokens_per_step * one.trial.schedule.steps for one in here if one.trial.data}),
    }


def _of(cell: SearchCell, planned: PlannedTrial) -> bool:
    here = {"architecture": planned.cell.architecture, "blocks": planned.cell.blocks}
    return all(cell.fixed.get(key, value) == value for key, value in here.items())


def _parameter(one: Parameter, sublayers: Sequence[int]) -> dict[str, Any]:
    return {
        "name": one.name,
        **one.domain.document(),
        "means": one.domain.words(),
        "between": _bounds(one.domain, sublayers),
    }


def _bounds(domain: Domain, sublayers: Sequence[int]) -> list[float] | None:
    """The least and greatest number that it can be, rules resolved at the depths of the search."""
    if domain.form == "choice" or not sublayers:
        return None
    found = [domain.bounds(one) for one in sublayers]
    if domain.form == "power_of_L":
        found = [(one**low, one**high) for one, (low, high) in zip(sublayers, found, strict=True)]
    return [min(low for low, _ in found), max(high for _, high in found)]


def _objective(one: Objective) -> dict[str, Any]:
    return {"name": one.name, "direction": one.direction, **({} if one.target is None else {"target": one.target})}


def _text(summary: dict[str, Any]) -> str:
    heads = ["search", "parameter", "space", "that is"]
    lines = [heads]
    for cell in summary["searches"]:
        for place, one in enumerate(cell["space"]):
            between = one["between"]
            numbers = "" if between is None else f"{between[0]:.4g} to {between[1]:.4g}"
            lines.append(["" if place else cell["search"], one["name"], one["means"], numbers])
    goals = ", ".join(
        f"{one['name']} ({one['direction']}{', at most ' + label_text(one['target']) if 'target' in one else ''})"
        for one in summary["objectives"]
    )
    cells = summary["searches"]
    facts = [
        ("sweep", f"{summary['name']} (protocol search)"),
        ("objectives", goals),
        ("sampler", f"{_chosen(summary['sampler'])}; pruner {_chosen(summary['pruner'])}"),
        ("points", _points(summary)),
        ("trials", _trials(summary)),
        ("already", _already(cells)),
        ("left to run", f"at most {summary['left']['trials']:,} trials of {_numbers(cells, 'steps')} steps"),
        ("parameters", _numbers(cells, "parameters") if any(any(c["parameters"]) for c in cells) else "unknown"),
        ("estimated time", _time(summary)),
    ]
    width = max(len(name) for name, _ in facts)
    return "\n".join([aligned(lines, right=set()), "", *(f"{name:<{width}}  {value}" for name, value in facts)])


def _points(summary: dict[str, Any]) -> str:
    each = summary["searches"][0]["points"]
    begin = f", {summary['begins_with']} of them given" if summary["begins_with"] else ""
    several = f" in each of {len(summary['searches'])} searches" if len(summary["searches"]) > 1 else ""
    return f"{each}{several}{begin}"


def _trials(summary: dict[str, Any]) -> str:
    runs = " and ".join({"ramp": "a ramp", "schedule": "a run with the schedule"}[one] for one in summary["runs"])
    seeds = f"seed{'s' * (len(summary['seeds']) > 1)} {', '.join(map(str, summary['seeds']))}"
    fresh = summary["fresh_seeds"]
    again = f"; the best {summary['measured_again']} again with seeds {', '.join(map(str, fresh))}" if fresh else ""
    return f"at most {summary['trials']:,}: {runs} for each of {seeds}{again}"


def _already(cells: Sequence[dict[str, Any]]) -> str:
    asked, ended = (sum(cell[key] for cell in cells) for key in ("asked", "ended"))
    again = sum(cell["measured_again"] for cell in cells)
    if not asked:
        return "no point asked; trials that are in storage cost nothing"
    return f"{asked} points asked, {ended} ended, {again} measured again"


def _chosen(chosen: dict[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in chosen.items() if key != "name")
    return f"{chosen['name']} ({options})" if options else str(chosen["name"])


def _numbers(cells: Sequence[dict[str, Any]], key: str) -> str:
    found = sorted({number for cell in cells for number in cell[key]})
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}" if found else "none"


def _time(summary: dict[str, Any]) -> str:
    estimate = summary["estimate"]
    if not summary["left"]["trials"]:
        return "nothing to run"
    if estimate["seconds"] is None:
        return "unknown (no step of these models was measured yet)"
    return f"{duration_text(estimate['seconds'])}, {estimate['slots']} trials at once, from models of this shape"
