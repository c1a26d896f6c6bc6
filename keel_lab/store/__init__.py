"""Storage is the truth: trials, sweeps, leases and a rebuildable index under one root opened with pyarrow.fs."""
