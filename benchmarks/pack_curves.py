"""Packs the stored curves of sweeps into one compact Parquet file, for docs/results and tests/data.

Run: python benchmarks/pack_curves.py SWEEP... FILE [--storage URI]

The file's metadata hold H1 (`unigram_entropy`, nats) where all curves share it. With several sweeps a trial is called
SWEEP/NAME.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from keel_lab.store.root import resolve_root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

KINDS = {"step": pa.int32(), "loss": pa.float32(), "unigram_loss": pa.float32(), "lr": pa.float32()}


def packed(names: list[str], storage: str | None) -> pa.Table:
    """One row a step: trial (name), step, loss, unigram_loss, lr, grad_norm, clipped, weights_finite."""
    root = resolve_root(storage)
    trials = Trials(root)
    schema = pa.schema(
        [
            pa.field("trial", pa.dictionary(pa.int16(), pa.string())),
            *(pa.field(name, kind) for name, kind in KINDS.items()),
            pa.field("grad_norm", pa.float32()),
            pa.field("clipped", pa.bool_()),
            pa.field("weights_finite", pa.bool_()),
        ]
    )
    parts = []
    entropies = set()
    for name, planned in ((one, planned) for one in names for planned in Sweeps(root).load(one).trials):
        result = trials.result(planned.trial.id)
        if result is None:
            raise SystemExit(f"{name}: {planned.name} has no result: keel-lab resume {name}")
        entropies.add(result.data.get("unigram_entropy"))
        steps = trials.curve(planned.trial.id).steps
        called = planned.name if len(names) == 1 else f"{name}/{planned.name}"
        columns = {field: [getattr(step, field) for step in steps] for field in schema.names[1:]}
        parts.append(pa.table({"trial": pa.array([called] * len(steps)), **columns}).cast(schema))
    whole = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    entropy = entropies.pop() if len(entropies) == 1 else None
    return whole if entropy is None else whole.replace_schema_metadata({"unigram_entropy": repr(entropy)})


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", nargs="+")
    parser.add_argument("file", type=Path)
    parser.add_argument("--storage")
    arguments = parser.parse_args()
    table = packed(arguments.sweep, arguments.storage)
    pq.write_table(
        table,
        arguments.file,
        compression="zstd",
        compression_level=19,
        use_byte_stream_split=["loss", "unigram_loss", "grad_norm", "lr"],
        use_dictionary=["trial"],
    )
    print(f"{arguments.file}: {table.num_rows} steps, {arguments.file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
