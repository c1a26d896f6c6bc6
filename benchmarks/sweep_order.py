"""What a sweep that is stopped early has answered: our order of its trials against the order of the grid.

    python benchmarks/sweep_order.py

Nothing is trained: 6 architectures x 4 depths x 12 LRs x 3 seeds, each family with a boundary drawn between two LRs
(or above all), above which every trial diverges. A family is known once a trial just below its boundary and one just
above it have ended.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence

from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.plan.skipping import family_of
from keel_lab.result import Outcome, TrialResult
from keel_lab.schedule.proposer import ListProposer
from keel_lab.settings import GridSchedule, ModelSettings, TrainSettings
from keel_lab.trial import Trial

LRS = tuple(1e-4 * 2**number for number in range(12))
ARCHITECTURES = tuple(f"arch{number}" for number in range(6))
BLOCKS, SEEDS = (4, 8, 16, 32), (0, 1, 2)
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
WORKERS = 4


def grid() -> list[PlannedTrial]:
    """The trials in the order of the grid."""
    return [
        PlannedTrial(_trial(name, blocks, lr, seed), Cell(name, blocks, (("lr", lr),)), {"lr": lr}, 0)
        for name in ARCHITECTURES
        for blocks in BLOCKS
        for lr in LRS
        for seed in SEEDS
    ]


def _trial(name: str, blocks: int, lr: float, seed: int) -> Trial:
    return Trial(
        architecture=name,
        options={},
        blocks=blocks,
        model=ModelSettings(),
        data=None,
        train=TrainSettings(),
        schedule=GridSchedule(lr=lr),
        init_seed=seed,
        data_seed=seed,
    )


def known_after(trials: Sequence[PlannedTrial], *, by_information: bool, draw: int) -> dict[float, tuple[float, float]]:
    """By share of the trials that have ended: the shares of families, and of cells with any seed, that are known."""
    truth = random.Random(draw)
    boundary = {family: truth.randrange(1, len(LRS) + 1) for family in dict.fromkeys(map(family_of, trials))}
    proposer = ListProposer(trials, by_information=by_information)
    flight: list[PlannedTrial] = []
    ended: dict[object, set[int]] = {}
    found = {}
    for number in range(1, len(trials) + 1):
        while len(flight) < WORKERS and (asked := proposer.ask()) is not None:
            flight.append(asked)
        one = flight.pop(0)
        place = _place(one)
        diverged = place >= boundary[family_of(one)]
        ended.setdefault(family_of(one), set()).add(place)
        verdict = Verdict(Status.DIVERGED, Mode.COLLAPSE) if diverged else Verdict(Status.HEALTHY)
        proposer.tell(one, TrialResult(one.trial.id, Outcome.COMPLETED, 1, verdict, {}), verdict)
        for share in SHARES:
            if number == round(share * len(trials)):
                found[share] = _known(trials, boundary, ended)
    return found


def _place(planned: PlannedTrial) -> int:
    assert isinstance(planned.trial.schedule, GridSchedule)
    return LRS.index(planned.trial.schedule.lr)


def _known(
    trials: Iterable[PlannedTrial], boundary: dict[object, int], ended: dict[object, set[int]]
) -> tuple[float, float]:
    cells: dict[tuple[str, int], list[bool]] = {}
    for family, one in {family_of(one): one for one in trials}.items():
        wanted = {boundary[family] - 1, boundary[family]} & set(range(len(LRS)))
        cells.setdefault((one.cell.architecture, one.cell.blocks), []).append(wanted <= ended.get(family, set()))
    families = [one for seeds in cells.values() for one in seeds]
    return sum(families) / len(families), sum(any(seeds) for seeds in cells.values()) / len(cells)


def main() -> None:
    """Prints the table, as means over 20 draws of the boundaries."""
    trials, draws = grid(), range(20)
    print(f"{len(trials)} trials, {len(ARCHITECTURES) * len(BLOCKS)} cells x {len(SEEDS)} seeds, {WORKERS} at once")
    print(f"{'ended':>6}  {'families known':^22}  {'cells known, a seed':^22}")
    print(f"{'':>6}  {'grid':>10} {'ours':>10}   {'grid':>10} {'ours':>10}")
    runs = {ours: [known_after(trials, by_information=ours, draw=draw) for draw in draws] for ours in (False, True)}
    for share in SHARES:
        words = [
            f"{sum(run[share][which] for run in runs[ours]) / len(draws):>10.0%}"
            for which in (0, 1)
            for ours in (False, True)
        ]
        print(f"{share:>6.0%}  {words[0]} {words[1]}   {words[2]} {words[3]}")


if __name__ == "__main__":
    sys.exit(main())
