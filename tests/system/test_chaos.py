"""`benchmarks/chaos.py`, shortened: faults from a seed, and nothing is lost."""

from __future__ import annotations

from benchmarks import chaos


def test_a_dozen_faults_over_a_dozen_trials_lose_nothing(capsys):
    chaos.main(["--trials", "12", "--faults", "12", "--seed", "7"])
    said = capsys.readouterr().out
    assert said.startswith("12 faults in ")
    assert "12 trials, each with one result; all curves and results equal those of the calm sweep" in said
