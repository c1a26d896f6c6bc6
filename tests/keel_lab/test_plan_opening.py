"""What is said of a sweep that is stored again under its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keel_lab.architecture import CorpusFacts
from keel_lab.plan import expand
from keel_lab.plan.opening import OpenedSweep, changed
from keel_lab.spec import load
from keel_lab.store.stored_sweep import StoredSweep
from trainers.catalogue import CATALOGUE

QUICKSTART = Path(__file__).parents[2] / "sweeps" / "quickstart.yaml"


def stored(facts: CorpusFacts, *overrides: str) -> StoredSweep:
    spec = load(QUICKSTART, list(overrides), CATALOGUE)
    return OpenedSweep(spec, facts, expand(spec, CATALOGUE, facts)).stored()


@pytest.mark.parametrize(
    ("override", "kept"),
    [
        ("grid.architecture=[keel]", "5 of its trials, in storage, are no part of the new one; name="),
        ("question=Why?", "all its trials are part of the new one; name="),
    ],
)
def test_a_sweep_defined_otherwise_says_what_becomes_of_its_trials(
    facts: CorpusFacts, override: str, kept: str
) -> None:
    before, after = stored(facts), replace(stored(facts, override), revision=2)
    said = changed(before, after)
    assert said is not None
    assert kept in said
    assert override.split("=")[0] in said
    assert changed(None, after) is None
    assert changed(before, replace(after, revision=1)) is None
