"""Small Parquet content in memory, read in the calling thread and without pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def read_parquet(content: bytes) -> pa.Table:
    """The table of a Parquet file's bytes.

    `pyarrow.parquet.read_table` would import pandas if it is installed, and its reader threads may still hold a Python
    file when the interpreter ends, which aborts it (pyarrow 25).

    Raises:
        pyarrow.ArrowException, OSError: if it is not Parquet, or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(content), pre_buffer=False).read(use_threads=False)
