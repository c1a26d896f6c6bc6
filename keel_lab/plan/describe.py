"""What `keel-lab plan` prints: the plan of a sweep file against what is in storage. Reads only."""

from __future__ import annotations

import json
import os

from keel_lab.plan.opening import OpenedSweep, refuse_other_bytes
from keel_lab.plan.summary import summarise
from keel_lab.schedule.settled import settled_results
from keel_lab.settings import Budget, Resources
from keel_lab.spec.writing import to_yaml
from keel_lab.store.root import Root
from keel_lab.store.trials import Trials


def describe_plan(opened: OpenedSweep, root: Root, *, as_json: bool) -> str:
    """The plan as text or JSON, without a trailing newline."""
    refuse_other_bytes(opened, root)
    if opened.points is not None:
        from keel_lab.search.summary import describe_search

        slots = local_slots(opened.spec.resources, opened.spec.budget)
        return describe_search(opened, root, slots, as_json=as_json)
    trials = Trials(root)
    spec, planned = opened.spec, opened.plan.trials
    done = settled_results(trials, planned, spec.thresholds, spec.siblings)
    costs = trials.step_costs([item.trial for item in planned])
    summary = summarise(
        opened.plan,
        opened.facts,
        done.keys(),
        lambda trial: costs.get(trial.id),
        local_slots(spec.resources, spec.budget),
        name=spec.name,
        protocol=spec.protocol,
        siblings=spec.siblings,
    )
    return json.dumps(summary.to_json(), indent=2) if as_json else summary.text()


def describe_resolved(opened: OpenedSweep, *, as_json: bool) -> str:
    """The sweep file with overrides, defaults and ranges written out; reading it plans the same trials."""
    spec = opened.spec
    if as_json:
        return json.dumps(spec.document, indent=2)
    note = f"# text is relative to {spec.folder}: keep this file there\n" if "text" in spec.data else ""
    return note + to_yaml(spec.document)


def local_slots(resources: Resources, budget: Budget) -> int:
    """How many trials would run at once on this machine, by its CPUs."""
    slots = max(1, (os.cpu_count() or 1) // resources.cpus)
    return slots if budget.max_concurrent is None else min(slots, budget.max_concurrent)
