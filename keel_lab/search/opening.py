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
        asked = sum(not point.fresh for point in before.points)
        shown = "\n".join(f"  {line}" for line in differences)
        name = opened.spec.name
        raise UsageError(
            f"search {name}: found {asked} points in storage, asked under another definition; now\n"
            f"{shown}\nGo on under the old one (keel-lab resume {name}), or search anew under another name, which may "
            f"begin with its best points: name={name}-2 search.warm_start.from={name}"
        )


def searching(
    points: Points, sweep: StoredSweep, root: Root, room: Callable[[], int], mirror: Mirror
) -> SearchProposer:
    """What the runner asks.

    Args:
        points: of the opened sweep.
        sweep: as stored, with its points so far.
        root: storage.
        room: how many trials run at once.
        mirror: as from `mirror_of`.
    """
    from keel_lab.search.proposer import SearchProposer

    files = PointFiles(root, sweep.name)
    return SearchProposer(points, files, Trials(root), sweep.points, room, mirror)


def mirror_of(opened: OpenedSweep, root: Root, tracking: str | None, say: Callable[[str], None]) -> Mirror | None:
    """Where Optuna's storage is kept up to date; None for a sweep that is no search.

    Args:
        opened: the sweep.
        root: storage.
        tracking: where MLflow's runs go.
        say: is told what a person should know meanwhile.

    Raises:
        UsageError: see `mirror_storage.mirror_url`.
    """
    if opened.points is None:
        return None
    from keel_lab.search.mirror import Mirror
    from keel_lab.search.mirror_storage import mirror_url

    file = root.local("optuna.db")
    url = mirror_url(file, tracking)
    return Mirror(url, opened.spec.name, say, own=url == f"sqlite:///{file}")


def mirrored(opened: OpenedSweep, root: Root, tracking: str) -> tuple[str, bool]:
    """Brings the Optuna storage to where a stored search is; says how to look at it, and whether all is there.

    Args:
        opened: the stored sweep.
        root: storage.
        tracking: where MLflow's runs go.

    Raises:
        UsageError: see `mirror_storage.mirror_url`.
    """
    from keel_lab.search.study import Study

    mirror = mirror_of(opened, root, tracking, lambda text: None)  # what `close` says is enough
    if mirror is None or opened.points is None or opened.origin is None:
        return "", True
    asked = [point for point in opened.origin.points if not point.fresh]
    cells = opened.points.cells
    mirror.begin([Study(opened.points, cell, (one for one in asked if one.cell == cell.number)) for cell in cells])
    return mirror.close(), mirror.current
