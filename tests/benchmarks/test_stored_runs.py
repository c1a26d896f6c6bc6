"""Our table of cell medians beside mlflow.search_runs and pandas, on a few runs: both must be the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.stored_runs import OURS, SEEDS, THEIRS, fill_mlflow, fill_storage, reading, stored_sweep
from keel_lab.store.root import Root


def test_both_make_the_same_table(tmp_path: Path) -> None:
    root, uri = Root.open(tmp_path / "store"), f"sqlite:///{tmp_path}/stored.db"
    sweep = stored_sweep(200, tmp_path, root)
    assert len(sweep.trials) == 10 * SEEDS
    fill_storage(sweep, root)
    fill_mlflow(sweep, uri, tmp_path)
    ours, theirs = (reading(program, place)[2] for program, place in ((OURS, str(tmp_path / "store")), (THEIRS, uri)))
    assert len(ours) == 10
    assert ours == theirs
