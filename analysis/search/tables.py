"""A search as tables: its best points, found and measured again, and the importance of its parameters."""

from __future__ import annotations

from collections import Counter

from analysis.intervals import LEVEL
from analysis.search import words
from analysis.search.findings import ALPHA, Search
from analysis.tables.layout import Group, Table
from keel_lab.spec.search import Objective
from keel_lab.store.points import State

_AGAIN = f"measured again [{LEVEL:.0%} interval]"


def layouts(search: Search) -> list[Table]:
    """The tables of one search."""
    tables = [_best(search)]
    return [*tables, _importance(search)] if search.importance else tables


def _best(search: Search) -> Table:
    several = len(search.objectives) > 1
    what = "Pareto front" if several else "Best points"
    goals = ", ".join(f"{one.name} ({one.direction})" for one in search.objectives)
    rows = []
    shape = () if search.spec.parameters is None else ("width",)  # which follows from the depth
    for best in search.best:
        row = [f"#{best.point.number}", *(words.parameter(best.point, one) for one in search.parameters)]
        row += [str(best.point.trials[0].trial.model.width)] * len(shape)
        for number, objective in enumerate(search.objectives):
            row += [words.found(best.point, objective, number), words.again(best.again.get(objective.name), objective)]
        rows.append(tuple(row))
    return Table(
        f"{what} for {goals}: {search.sweep.stored.name}, {search.name}",
        ("point", *(one.name for one in search.parameters), *shape),
        tuple(Group(one.name, ("as found", _AGAIN)) for one in search.objectives),
        tuple(rows)
        or ((_none(search), *("-" for _ in range(len(search.parameters) + len(shape) + 2 * len(search.objectives)))),),
        tuple(_notes(search)),
    )


def _notes(search: Search) -> list[str]:
    spec, points = search.spec, search.points
    counts = [f"{len(points)} of {spec.points} points asked, sampler {spec.sampler.name} (seed {spec.seed})"]
    counts += [f"{search.count(State.PRUNED)} pruned{_why(search)}"] if search.count(State.PRUNED) else []
    counts += [f"{search.diverged} diverged"] if search.diverged else []
    counts += [f"{search.count(State.RUNNING)} not ended"] if search.count(State.RUNNING) else []
    notes = ["; ".join(counts) + ".", *_useless(search), *_meaning(search)]
    for name, end in dict.fromkeys(edge for best in search.best[:1] for edge in best.edges):
        notes.append(
            f"The best point stands at the {end} of {name}: the optimum may lie beyond; extend search.space.{name}."
        )
    return notes


def _none(search: Search) -> str:
    """In place of the best points."""
    return "none yet" if len(search.points) < search.spec.points or search.count(State.RUNNING) else "none"


def _useless(search: Search) -> list[str]:
    """What to do where every point is in, and none can be told apart from another."""
    if search.best or _none(search) == "none yet":
        return []
    sections = " and ".join(f"{name}.steps" for name in search.spec.sections)
    name, told = search.sweep.stored.name, sum(one.told is not None for one in search.points)
    if told:
        where = f"keel-lab report {name} --format csv lists them"
        why = "the ramps did not learn: that takes more ramp.steps"
        return [f"{told} points have a value of some objective ({where}), none of all; where max_lr is 0, {why}."]
    remedy = f"those that did not learn need more {sections}"
    return [f"No point came to a value; keel-lab status {name} says of each trial why: {remedy}."]


def _why(search: Search) -> str:
    """Why points were pruned that did not diverge."""
    found = Counter(str(one.facts["why"]) for one in search.points if one.state is State.PRUNED and "why" in one.facts)
    return f" ({', '.join(f'{count} {why}' for why, count in found.items())})" if found else ""


def _meaning(search: Search) -> list[str]:
    again = any(best.again for best in search.best)
    notes = []
    if search.best:
        lucky = "As found: the value that the point was chosen for, the luckiest of many and therefore too good"
        fresh = "measured again: the same point with seeds that the search had not seen."
        notes.append(f"{lucky}; {fresh if again else 'it was not measured again.'}")
    if any(one.key == ALPHA for one in search.parameters):
        notes.append("Alpha in units of L, the number of sub-layers, and in the search's own words.")
    if search.spec.parameters is not None:
        notes.append(
            f"Width: what gives about {search.spec.parameters:,} parameters at that depth; the FFN in proportion."
        )
    names = [one.name for one in search.objectives]
    if names == ["max_lr"] and any(one.key.startswith("options.") for one in search.parameters):
        notes.append(
            "Max LR alone ranks nothing: branches that hardly count are stable for a trivial reason. Search a loss "
            "beside it."
        )
    censored = sum(bool(point.facts.get("censored")) for point in search.points)
    if censored:
        notes.append(
            f"{censored} points did not diverge by the ramp's peak (>): the search could not tell them apart; raise "
            "ramp.peak_lr."
        )
    for one in search.objectives:
        notes += _of(one)
    return notes


def _of(objective: Objective) -> list[str]:
    if objective.name == "tokens_to_loss":
        return [f"tokens_to_loss: training tokens until the loss is at most {objective.target:g} nats a token."]
    if objective.name == "cost":
        return ["cost: training FLOPs, 6 a parameter and token."]
    if objective.name == "final_loss":
        return ["final_loss: paired training loss, mean over the last twentieth of the run, nats a token."]
    return ["val_loss: nats a token on held-out text."] if objective.name == "val_loss" else []


def _importance(search: Search) -> Table:
    names = sorted(
        {name for shares in search.importance.values() for name in shares},
        key=lambda name: -max(shares.get(name, 0.0) for shares in search.importance.values()),
    )
    rows = tuple(
        (name, *(f"{shares[name]:.2f}" if name in shares else "-" for shares in search.importance.values()))
        for name in names
    )
    return Table(
        f"Importance of the parameters: {search.sweep.stored.name}, {search.name}",
        ("parameter",),
        (Group("share of the variation among good points", tuple(search.importance)),),
        rows,
        ("PED-ANOVA (Watanabe et al. 2023) over complete points; a point estimate without interval.",),
    )
