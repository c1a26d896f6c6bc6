"""The processes that train one trial together: their numbers, what they average, and what rank 0 decides for all.

They are in a torch process group, gloo on CPUs and NCCL on GPUs, which whoever starts them has them `join`
(`keel_lab.schedule.ray_group` does). One process alone needs none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from keel_lab.curve import Step
from keel_lab.errors import UsageError
from keel_lab.schedule.reporting import Report, Resume
from keel_lab.trial import Trial


def join(rank: int, size: int, host: str, port: int, interface: str, listener: int | None) -> None:
    """Joins this process's group, whose sockets are on one network interface only; waits until all are there.

    Args:
        rank: of this process.
        size: of the group.
        host: address at which rank 0 lets the others meet, by the port `port`.
        port: see there.
        interface: of this machine, by name; what the environment says for gloo or NCCL goes before.
        listener: rank 0's listening socket there, as a file descriptor: torch's own would listen on all interfaces.
    """
    for library in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", interface)
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host, port, size, is_master=rank == 0, master_listen_fd=listener
    )
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size)


def leave() -> None:
    """Leaves the group that was joined."""
    distributed.destroy_process_group()


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is.

    Attributes:
        rank: from 0; rank 0 reports.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def of(cls, trial: Trial) -> Ranks:
        """This process among the trial's.

        Raises:
            UsageError: if the trial asks for several, and this process is not in a group of so many.
        """
        workers = trial.resources.workers
        if workers == 1:
            return cls()
        if not distributed.is_initialized() or distributed.get_world_size() != workers:
            found = f"a group of {distributed.get_world_size()}" if distributed.is_initialized() else "alone"
            raise UsageError(
                f"resources.workers: the trial asks for {workers} processes, this one is {found}; run it with Ray "
                "(without --executor local), or set workers: 1"
            )
        return cls(distributed.get_rank(), workers)

    def mean(self, *values: float) -> tuple[float, ...]:
        """Each value's mean over the ranks; NaN and Inf of one are everyone's."""
        if self.size == 1:
            return values
        both = torch.tensor(values, dtype=torch.float64, device=_device())
        distributed.all_reduce(both)
        return tuple((both / self.size).tolist())

    def from_first(self, *words: bool) -> tuple[bool, ...]:
        """Rank 0's words, on every rank."""
        if self.size == 1:
            return words
        both = torch.tensor(words, dtype=torch.uint8, device=_device())
        distributed.broadcast(both, src=0)
        return tuple(map(bool, both.tolist()))

    def same_values(self, model: nn.Module) -> None:
        """Gives every rank rank 0's parameters: what was profiled on one batch must be the same numbers everywhere."""
        if self.size == 1:
            return
        with torch.no_grad():
            for parameter in model.parameters():
                values = parameter.to(_device())
                distributed.broadcast(values, src=0)
                parameter.copy_(values)


class SharedReport:
    """The trial's `Report` on every rank: rank 0's own is asked, and all hear its answers.

    Args:
        report: on rank 0 the trial's; elsewhere one that knows `resume` and `data_folder`, and is asked nothing else.
        ranks: who takes part; each calls `facts`, `step` and `checkpoint` at the same moments.
    """

    def __init__(self, report: Report, ranks: Ranks) -> None:
        self._report, self._ranks = report, ranks
        self._finished = self._due = False

    @property
    def resume(self) -> Resume | None:
        """See `Report.resume`."""
        return self._report.resume

    @property
    def checkpoint_due(self) -> bool:
        """See `Report.checkpoint_due`; as rank 0 said after the last step."""
        return self._due

    @property
    def finished(self) -> bool:
        """See `Report.finished`."""
        return self._finished

    def data_folder(self) -> Path:
        """See `Report.data_folder`; each host fetches its own."""
        return self._report.data_folder()

    def facts(self, *, unigram_entropy: float | None = None, chance: float | None = None, **execution: Any) -> None:
        """See `Report.facts`."""
        if self._leads:
            self._report.facts(unigram_entropy=unigram_entropy, chance=chance, **execution)
        (self._finished,) = self._ranks.from_first(self._leads and self._report.finished)

    def step(self, step: Step, seconds: float = math.nan) -> bool:
        """See `Report.step`."""
        words: Sequence[bool] = (False, False, False)
        if self._leads:
            go_on = self._report.step(step, seconds)
            words = (go_on, self._report.finished, self._report.checkpoint_due)
        go_on, self._finished, self._due = self._ranks.from_first(*words)
        return go_on

    def checkpoint(self, path: Path) -> None:
        """See `Report.checkpoint`; only rank 0 has written the file."""
        if self._leads:
            self._report.checkpoint(path)

    def metric(self, name: str, value: float) -> None:
        """See `Report.metric`."""
        if self._leads:
            self._report.metric(name, value)

    @property
    def _leads(self) -> bool:
        return self._ranks.rank == 0


def _device() -> torch.device:
    """Where the group's collectives take their tensors."""
    if distributed.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
