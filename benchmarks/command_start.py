"""How long `keel-lab --help` takes, as a multiple of an empty interpreter, both started in turn.

Run: python benchmarks/command_start.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 25
ALLOWED = 10.0
EMPTY = [sys.executable, "-c", "pass"]
HELP = [sys.executable, "-c", "import sys; sys.argv = ['keel-lab', '--help']; from keel_lab.cli import main; main()"]


def seconds(command: list[str]) -> float:
    """Wall time of a process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    return time.perf_counter() - start


def main() -> int:
    """Prints both and their ratio; 1 if it is over `ALLOWED`."""
    pairs = [(seconds(EMPTY), seconds(HELP)) for _ in range(REPEATS)]
    empty, told = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for other, one in pairs)
    print(f"empty interpreter {empty * 1e3:.0f} ms, keel-lab --help {told * 1e3:.0f} ms: {ratio:.1f} times")
    return int(ratio > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
