"""When a node counts as one on which trials die."""

from __future__ import annotations

from keel_lab.schedule.node_health import NodeHealth


def test_three_different_trials_in_a_row() -> None:
    health = NodeHealth()
    assert [health.died("n", trial) for trial in ("a", "a", "b")] == [False] * 3
    health.ended_well("n")
    assert [health.died("n", trial) for trial in ("c", "d", "e", "f")] == [False, False, True, False]
    assert not any(health.died("", trial) for trial in "abcd")
