"""Storage is the truth: trials, sweeps, leases and a rebuildable index under one root opened with pyarrow.fs.

trials/ID/trial.json                    the trial
trials/ID/curve.parquet, timing.parquet what every step recorded; curve-2.parquet, ... after it went on
trials/ID/result.json                   written last: commits the trial, names its curve with size and hash
trials/ID/attempts/N.json, log.txt      failures; the last attempt's log
trials/ID/diagnostics.parquet           what a replay saw inside the model (`keel-lab explain`): a cache
trials/ID/figures/                      explain.png and explain.svg
trials/ID/checkpoints/                  STEP-HASH.ckpt with the curve so far; last.json, written last, commits it
sweeps/NAME/sweep.json, trials.jsonl    the resolved sweep; older ones in revisions/N/
sweeps/NAME/judgements/                 verdicts, one file a detector version and thresholds
sweeps/NAME/lease.lock or lease.json    who runs it: a kernel lock, or a heartbeat on an object store
sweeps/NAME/points/                    of a search: each point as it was asked and told; names its trials
sweeps/NAME/delivered.json              how far tracking was delivered
probes/ID.json, SWEEP/*.png, *.svg       what `keel-lab probe` measured inside a model: a cache; its figures
index/results.parquet                   a cache of all results; deleting it loses nothing
"""
