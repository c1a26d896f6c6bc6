"""From an opened sweep of protocol search to what the runner asks; a stored search is gone on with or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from keel_lab.errors import UsageError
from keel_lab.store.points import PointFiles
from keel_lab.store.stored_sweep import StoredSweep
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

if TYPE_CHECKING:
    from keel_lab.plan.opening import OpenedSweep
    from keel_lab.search.cells import Points
    from keel_lab.search.mirror import Mirror
    from keel_lab.search.proposer import SearchProposer
    from keel_lab.store.root import Root

FREE = ("question", "budget.", "resources.", "search.points", "search.remeasure", "search.warm_start.")


def refuse_other_search(before: StoredSweep | None, opened: OpenedSweep) -> None:
    """Refuses to go on with a stored search whose points were asked of another space, or for another objective.

    How many points there are, what is measured again, resources and budget may change.

    Raises:
        UsageError: with the difference.
    """
    if before is None or not before.points:
        return
    differences = [
        line for line in Sweeps.difference(before.spec["document"], opened.spec.document) if not line.startswith(FREE)
    ]
    if differences:
        shown = "\n".join(f"  {line}" for line in differences)
        name = opened.spec.name
        raise UsageError(
            f"search {name}: found {len(before.points)} points in storage, asked under another definition; now\n"
            f"{shown}\nGo on under the old one (keel-lab resume {name}), or search anew under another name, which may "
            f"begin with its best points: name={name}-2 search.warm_start.from={name}"
        )


def searching(points: Points, sweep: StoredSweep, root: Root, room: Callable[[], int]) -> tuple[SearchProposer, Mirror]:
    """What the runner asks, and where Optuna's storage is kept up to date.

    Args:
        points: of the opened sweep.
        sweep: as stored, with its points so far.
        root: storage.
        room: how many trials run at once.
    """
    from keel_lab.search.mirror import Mirror, mirror_url
    from keel_lab.search.proposer import SearchProposer

    mirror = Mirror(mirror_url(root.local("optuna.db")), sweep.name)
    files = PointFiles(root, sweep.name)
    return SearchProposer(points, files, Trials(root), sweep.points, room, mirror), mirror
