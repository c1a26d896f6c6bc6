"""What is known of one run on the store."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

from keel_lab.track.note import NOTE
from keel_lab.track.points import ONCE


@dataclass
class MirroredRun:
    """A run on the store: which steps of which metric it has (sorted), its params, latest values, note and dataset."""

    id: str
    params: dict[str, str] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    steps: dict[str, list[int]] = field(default_factory=dict)
    has_dataset: bool = False
    note: str = ""

    def lacks(self, key: str, step: int, every: int) -> bool:
        """Whether no point of the metric lies closer than `every` steps to this one."""
        have = self.steps.get(key, [])
        right = bisect.bisect_left(have, step)
        return (right == len(have) or have[right] - step >= every) and (right == 0 or step - have[right - 1] >= every)

    def add(self, key: str, step: int) -> None:
        """Notes a point that is being written."""
        bisect.insort(self.steps.setdefault(key, []), step)

    def contradicts(self, params: Mapping[str, str], finals: Mapping[str, float]) -> bool:
        """Whether the run already says otherwise: params cannot be changed, and final metrics not taken back."""
        if any(self.params.get(key, value) != value for key, value in params.items()):
            return True
        old = {key: value for key, value in self.latest.items() if key.startswith(ONCE)}
        return bool(old and finals) and old != dict(finals)

    def without_foreign_note(self, tags: Mapping[str, str], name: str) -> dict[str, str]:
        """The tags, less ours for the run's description if somebody wrote one; ours begin with the trial's `name`."""
        foreign = self.note and not self.note.startswith(f"{name}: ")
        return {key: value for key, value in tags.items() if not (foreign and key == NOTE)}
