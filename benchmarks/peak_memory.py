"""What `resources.checkpoint_activations` saves: peak memory of whole trials, with and without, at three depths.

Each trial is a `keel-lab run` in a process of its own, with Lightning, AdamW, storage and report, and its peak is what
the kernel says of that process (`getrusage`). Width 64, 8 sequences of 128 tokens, three steps.

    python benchmarks/peak_memory.py                      # 64, 256 and 1,024 blocks; up to 9 GB and some minutes
    python benchmarks/peak_memory.py --blocks 64 --architecture pre_ln
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SWEEP = """
schema: 1
name: peak
protocol: grid
grid: {architecture: [%s], depth: {blocks: [%d]}, lr: [1e-3]}
model: {width: 64, heads: 4, kv_heads: 2, ffn_width: 192, context: 128}
data: {corpus: stdlib}
train: {batch_size: 8}
schedule: {shape: constant, steps: 3, warmup_steps: 0, validation_sequences: 8}
resources: {cpus: %d, memory: 16GiB, checkpoint_activations: %s}
"""
GB = 1e9


def peak(architecture: str, blocks: int, cpus: int, checkpointed: bool) -> int:
    """Peak resident bytes of the trial's process."""
    with tempfile.TemporaryDirectory(prefix="keel-lab-peak-") as folder:
        sweep = Path(folder) / "peak.yaml"
        sweep.write_text(SWEEP % (architecture, blocks, cpus, str(checkpointed).lower()))
        command = [sys.executable, "-m", "keel_lab", "run", str(sweep), "--executor", "local", "--tracking", "off"]
        with (Path(folder) / "log").open("w+") as log:
            child = subprocess.Popen([*command, "--storage", f"{folder}/store"], stdout=log, stderr=log)
            _, status, usage = os.wait4(child.pid, 0)  # of this very child
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                log.seek(0)
                raise SystemExit(f"{blocks} blocks ended with exit code {child.returncode}:\n{log.read()[-2000:]}")
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Prints a row a depth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--architecture", default="keel")
    parser.add_argument("--cpus", type=int, default=2)
    asked = parser.parse_args()
    print(f"{asked.architecture}, width 64, 8 sequences of 128 tokens, 3 steps, {asked.cpus} threads: peak memory, GB")
    print("blocks  sub-layers  with  without  ratio")
    for blocks in asked.blocks:
        saved = peak(asked.architecture, blocks, asked.cpus, checkpointed=True)
        print(f"{blocks:6d}  {2 * blocks:10d}  {saved / GB:4.2f}", end="", flush=True)
        plain = peak(asked.architecture, blocks, asked.cpus, checkpointed=False)
        print(f"  {plain / GB:7.2f}  {saved / plain:5.2f}", flush=True)


if __name__ == "__main__":
    main()
