"""One of two processes that train trials together over gloo on loopback: `python -m tests.trainers.together ...`.

Both go through the same cases; rank 0 writes what its report heard. Cases are shared with the test.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from keel_lab.curve import Curve
from keel_lab.schedule.reporting import Resume
from keel_lab.settings import GridSchedule, ModelSettings, Resources, TrainSettings
from tests.trainers.job_cases import SHAPE, MemoryReport, trial

LAST = 10
SCHEDULE = GridSchedule(lr=1e-3, steps=LAST, warmup_steps=4, validation_sequences=8)
HALVES = TrainSettings(batch_size=8, accumulate=2, clip="per_sublayer", clip_norm=0.5, z_loss=1e-3)
MOE = ModelSettings(**(SHAPE.model_dump() | {"ffn": "moe", "balance_weight": 0.0}))  # balance is of each rank's tokens
TIED = ModelSettings(**(SHAPE.model_dump() | {"tied_head": True}))
DDP, FSDP = {"workers": 2}, {"workers": 2, "strategy": "fsdp"}
STOP = 6
STOPPED = ("ddp", "fsdp")  # are stopped there and go on
FROM_ONE = "fsdp from one"  # goes on from the checkpoint that one process has written
CASES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {  # name: (resources, what else the trial has)
    "ddp": (DDP, {"architecture": "hybridnorm"}),
    "ddp accumulating": (DDP, {"train": HALVES}),
    "ddp moe": (DDP, {"model": MOE}),
    "ddp admin": (DDP, {"architecture": "admin"}),
    "ddp muon": (DDP, {"train": TrainSettings(batch_size=8, optimizer="muon")}),
    "fsdp": (FSDP, {"architecture": "hybridnorm"}),
    "fsdp accumulating": (FSDP, {"train": HALVES}),
    "fsdp moe": (FSDP, {"model": MOE}),
    "fsdp scalars, recomputed": (FSDP | {"checkpoint_activations": True}, {"architecture": "rezero"}),
    "fsdp tied, lion": (FSDP, {"model": TIED, "train": TrainSettings(batch_size=8, optimizer="lion")}),
    "fsdp sgd": (FSDP, {"architecture": "residual_dual", "train": TrainSettings(batch_size=8, optimizer="sgd")}),
    FROM_ONE: (FSDP, {"architecture": "hybridnorm"}),
    "fsdp bf16": (FSDP, {"train": TrainSettings(batch_size=8, precision="bf16")}),
}


def case(data: Path, name: str, *, alone: bool = False) -> Any:
    """The trial of a case; `alone`: for one process."""
    resources, changes = CASES[name]
    asked = {"train": TrainSettings(batch_size=8), "schedule": SCHEDULE, "blocks": 2, **changes}
    return trial(data, **asked, resources=Resources(**(resources | {"workers": 1} if alone else resources)))


def curve_of(folder: Path) -> Curve:
    """What one process recorded before its checkpoint."""
    return Curve.from_parquet((folder / "one.parquet").read_bytes())


def main() -> None:
    """Runs every case on one rank."""
    from trainers import job
    from trainers.ranks import join, leave

    data, folder, rank, port, listener = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
    join(rank, 2, "127.0.0.1", port, "lo", listener if rank == 0 else None)
    for name in CASES:
        place = folder / name.replace(" ", "_")
        place.mkdir(exist_ok=True)
        workdir = folder / f"rank{rank}" / place.name
        workdir.mkdir(parents=True)
        report = MemoryReport(data, place, LAST, stop=STOP if name in STOPPED else None)
        if name == FROM_ONE:
            report.resume, report.curve = Resume(STOP, folder / "one.ckpt"), curve_of(folder)
        job.run(case(data, name), workdir, report)
        if report.stop is not None:
            if rank == 0:
                (folder / f"{name} written").touch()
            else:  # its own copy, as if there were no disk that both can read
                while not (folder / f"{name} written").exists():
                    time.sleep(0.01)
                report.resume = Resume(STOP, Path(shutil.copy(place / f"{STOP}.ckpt", workdir / "own.ckpt")))
            report.stop = None
            job.run(case(data, name), workdir, report)
        if name == "ddp admin":
            save_omegas(data, folder, rank)
        if rank == 0:
            said = {"steps": report.curve.steps, "metrics": report.metrics, "execution": report.execution}
            (place / "said.json").write_text(json.dumps(said))
        else:
            assert not report.said, "only rank 0 reports"
    leave()


def save_omegas(data: Path, folder: Path, rank: int) -> None:
    """What each rank's model holds when training starts."""
    from trainers.batches import first_update
    from trainers.data.shard import Shard
    from trainers.model import build
    from trainers.ranks import Ranks

    asked = case(data, "ddp admin")
    model, own = build(asked), asked.model_copy(update={"data_seed": rank})  # ranks that saw other data still agree
    model.calibrate(first_update(own, Shard.open(data)))
    Ranks.of(asked).same_values(model)
    omegas = [parameter.detach() for name, parameter in model.named_parameters() if "skip" in name]
    torch.save(omegas, folder / f"omegas{rank}.pt")


def listening() -> socket.socket:
    """A socket for rank 0's store, on loopback."""
    opened = socket.create_server(("127.0.0.1", 0))
    opened.set_inheritable(True)
    return opened


if __name__ == "__main__":
    main()
