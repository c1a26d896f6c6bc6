"""Where delivery to the tracking server stands, kept with the sweep (`track.writer.Cursor`)."""

from __future__ import annotations

from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps


class DeliveryCursor:
    """A sweep's `delivered.json`.

    Args:
        root: storage.
        name: of the sweep.
        afresh: forget which trials were delivered, so that each is compared with what the server has.
    """

    def __init__(self, root: Root, name: str, *, afresh: bool = False) -> None:
        self._sweeps, self._name, self._afresh = Sweeps(root), name, afresh

    def load(self) -> dict[str, object]:
        """See `Cursor.load`."""
        stored = self._sweeps.delivered(self._name)
        return {**stored, "trials": {}} if self._afresh else stored

    def save(self, data: dict[str, object]) -> None:
        """See `Cursor.save`."""
        self._sweeps.set_delivered(self._name, data)
