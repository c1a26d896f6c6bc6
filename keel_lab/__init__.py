"""keel_lab: what runs and what its outcome means. No torch, pandas or Lightning is imported anywhere below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from keel_lab.schedule.summary import RunSummary

__version__ = "0.1.0"
__all__ = ["__version__", "run"]


def run(
    file: str | Path,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    storage: str | Path | None = None,
    executor: str = "ray",
    ray_address: str | None = None,
    tracking: str | None = None,
) -> RunSummary:
    """Runs a sweep file as `keel-lab run` does; what is already in storage is not run again.

    Progress goes to standard error; the table is `analysis.report.build(summary.sweep)`, the numbers are
    `analysis.load(summary.sweep)`.

    Args:
        file: the sweep file, or the name of one that ships.
        overrides: `{"ramp.steps": 300}`, or texts such as `"ramp.steps=300"`.
        storage: root of the store; None for KEEL_LAB_STORAGE, else `./keel-lab-store`.
        executor: `ray`, or `local` for one trial at a time in this process.
        ray_address: a running Ray; None for RAY_ADDRESS, else a Ray of our own.
        tracking: MLflow's URI, or `off`; None for MLFLOW_TRACKING_URI, else SQLite in a local store.

    Returns:
        How it ended. Trials that failed are counted and named there, they do not raise.

    Raises:
        KeelLabError: if the sweep cannot be run as asked; nothing was run then.
        KeyboardInterrupt: after Ctrl-C, once running trials have stopped at a checkpoint; the same call goes on.
    """
    from keel_lab.composition import run_file

    return run_file(file, overrides, storage, executor, ray_address, tracking)
