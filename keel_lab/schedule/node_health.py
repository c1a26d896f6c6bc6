"""Which nodes trials die on: one on which they die in a row is set aside, not the sweep (CASES, number 12)."""

from __future__ import annotations

IN_A_ROW = 3  # one or two may be the trials' own fault


class NodeHealth:
    """Counts, by node, the trials that died there since the last one that came to its end."""

    def __init__(self) -> None:
        self._died: dict[str, list[str]] = {}

    def ended_well(self, node: str) -> None:
        """A trial came to its end there."""
        self._died.pop(node, None)

    def died(self, node: str, trial_id: str) -> bool:
        """An attempt failed there; says whether it is the last of `IN_A_ROW` different trials to do so."""
        if not node:
            return False
        died = self._died.setdefault(node, [])
        if trial_id not in died:
            died.append(trial_id)
        return len(died) == IN_A_ROW
