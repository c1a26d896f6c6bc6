"""How Lightning trains a trial on several workers: DDP, or FSDP2 through its ModelParallelStrategy.

Not by Ray Train's `prepare_trainer`, which knows FSDP1 alone, and that refuses CPUs. Each worker is a node with one
device to Lightning: the group is there already, and no number of a device has to be guessed.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeVar

from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, ParallelStrategy
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from keel_lab.trial import Trial
from trainers.model import Transformer
from trainers.ranks import Ranks

T = TypeVar("T")


def strategy(trial: Trial, ranks: Ranks) -> ParallelStrategy:
    """The strategy that `resources.strategy` names, for several ranks."""
    if trial.resources.strategy == "fsdp":
        return _Sharded(
            data_parallel_size=ranks.size, tensor_parallel_size=1, save_distributed_checkpoint=False
        )  # one file, as one process and DDP write it: a trial may go on under another strategy
    return DDPStrategy()


def split(model: Transformer, mesh: DeviceMesh) -> None:
    """Splits each branch, and then the rest, over the ranks (FSDP2): a branch is whole only while it computes."""
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")  # no step works in place
    for branch in model.stack.branches:
        fully_shard(branch, mesh=mesh)
    fully_shard(model, mesh=mesh)


class _Sharded(ModelParallelStrategy):
    def broadcast(self, obj: T, src: int = 0) -> T:
        """As in Lightning, but for paths, which it takes to be on a disk that all ranks share: each has its own."""
        return obj if isinstance(obj, str | os.PathLike) else super().broadcast(obj, src)


class Group(ClusterEnvironment):
    """The process group that this process is in already."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    @property
    def creates_processes_externally(self) -> bool:
        """They are all there."""
        return True

    @property
    def main_address(self) -> str:
        """Asked only by who makes a group."""
        raise RuntimeError("the group is there already")

    @property
    def main_port(self) -> int:
        """Asked only by who makes a group."""
        raise RuntimeError("the group is there already")

    @staticmethod
    def detect() -> bool:
        """Never chosen by itself."""
        return False

    def world_size(self) -> int:
        """Number of ranks."""
        return self._ranks.size

    def set_world_size(self, size: int) -> None:
        """It is what it is."""

    def global_rank(self) -> int:
        """This rank."""
        return self._ranks.rank

    def set_global_rank(self, rank: int) -> None:
        """It is what it is."""

    def local_rank(self) -> int:
        """A node has one rank."""
        return 0

    def node_rank(self) -> int:
        """Each rank is a node."""
        return self._ranks.rank


def trainer_arguments(trial: Trial, ranks: Ranks) -> dict[str, Any]:
    """What a Lightning Trainer is told of devices and strategy; every worker sees one GPU at most."""
    if ranks.size == 1:
        return {"devices": 1, "plugins": [LightningEnvironment()]}  # whatever the machine's queue says: one process
    return {
        "devices": 1,
        "num_nodes": ranks.size,
        "strategy": strategy(trial, ranks),
        "plugins": [Group(ranks)],
        "use_distributed_sampler": False,
    }
