"""What do ten thousand wrong sweep files lead to? Exit 0 or 2: never a traceback, never a partial run.

    python benchmarks/mutations.py [--files 10000] [--seed 0]

Each file is a shipped sweep of this repository with one to four changes: keys dropped, renamed or doubled, values put
in the place of others, lines cut, moved or torn, characters of YAML put in. Each is planned (`keel-lab plan`), which
reads and expands it; each that is refused is also given to `keel-lab run`, which must say the same and store nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from keel_lab.cli import main as keel_lab

SWEEPS = sorted((Path(__file__).resolve().parents[1] / "sweeps").glob("*.yaml"))
PLAIN = """0 -1 1e-4 1e400 3e6 nan .inf 1_000 off null ~ true '' [] {} [1,2] L L^999 sqrt(L) 10% 2GiB 90m keel 0x10 é
{log:[1e-4,1,5]} {log: {linear: {blocks:[2]} {blocks:0} 2026-11-30 !!python/object:os.system *a &a a:b ' \""""
VALUES = [*PLAIN.split(), "9" * 400, "{log: [1e-4, 1, 5]}", "{linear: [0, 1, 1000000]}", "{uniform: [0, 1]}", "a: b"]
PIECES = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "&x ",
    "*x",
    "!!",
    "\t",
    "#",
    "\n",
    "'",
    '"',
    "|\n",
    "---\n",
    "\0",
    "\ufeff",
    "%",
]
WORDS = (
    "width",
    "heads",
    "alpha",
    "lr",
    "seed",
    "depth",
    "ramp",
    "schedule",
    "grid",
    "steps",
    "budget",
    "x",
    "",
    "<<",
    "1",
)


def replace_value(random_: random.Random, lines: list[str]) -> None:
    """Another value after a colon or in a list."""
    at = random_.randrange(len(lines))
    found = list(re.finditer(r"(?:(?<=[:,] )|(?<=\[))[^\s,\[\]{}]+", lines[at]))
    if found:
        match = random_.choice(found)
        lines[at] = lines[at][: match.start()] + random_.choice(VALUES) + lines[at][match.end() :]


def rename_key(random_: random.Random, lines: list[str]) -> None:
    """Another key."""
    at = random_.randrange(len(lines))
    lines[at] = re.sub(r"\w+(?=:)", random_.choice(WORDS), lines[at], count=1)


def drop(random_: random.Random, lines: list[str]) -> None:
    """A line less."""
    lines.pop(random_.randrange(len(lines)))


def double(random_: random.Random, lines: list[str]) -> None:
    """A line twice, or elsewhere as well."""
    lines.insert(random_.randrange(len(lines)), random_.choice(lines))


def indent(random_: random.Random, lines: list[str]) -> None:
    """A line that belongs to another section."""
    at = random_.randrange(len(lines))
    lines[at] = " " * random_.randint(0, 6) + lines[at].lstrip()


def insert(random_: random.Random, lines: list[str]) -> None:
    """Characters that YAML reads as more than text."""
    at = random_.randrange(len(lines))
    where = random_.randint(0, len(lines[at]))
    lines[at] = lines[at][:where] + random_.choice(PIECES) + lines[at][where:]


def tear(random_: random.Random, lines: list[str]) -> None:
    """A file that ends too early."""
    at = random_.randrange(len(lines))
    lines[at:] = [lines[at][: random_.randint(0, len(lines[at]))]]


CHANGES = (replace_value, rename_key, drop, double, indent, insert, tear)
WEIGHTS = (12, 2, 2, 1, 1, 1, 1)


def mutated(random_: random.Random, text: str) -> str:
    """A text with one to four changes."""
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    for _ in range(random_.choice((1, 1, 2, 3, 4))):
        if lines:
            random_.choices(CHANGES, WEIGHTS)[0](random_, lines)
    return "".join(lines)


def call(*words: str) -> tuple[object, str]:
    """Exit code and what was said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            keel_lab(words)
        except SystemExit as end:
            return end.code, err.getvalue()
    raise AssertionError("the command line always ends in SystemExit")


def check(text: str, folder: Path) -> str:
    """`good` or `refused`; SystemExit with the file if it is neither."""
    file, store = folder / "sweep.yaml", folder / "store"
    file.write_text(text, encoding="utf-8")
    how = ("--storage", str(store))
    code, said = call("plan", str(file), "--json", *how)
    if code == 2:
        again, said_again = call("run", str(file), *how, "--executor", "local", "--tracking", "off")
        if (again, said_again) != (code, said):
            raise SystemExit(
                f"plan and run differ:\n{text}\n--- plan said {said}\n--- run ended with {again}: {said_again}"
            )
    bad = (
        code not in (0, 2)
        or "did not foresee" in said
        or "Traceback" in said
        or (code == 2 and not said.startswith("error: "))
    )
    if bad or store.exists():
        raise SystemExit(
            f"exit {code}, {'something stored' if store.exists() else 'nothing stored'}:\n{text}\n---\n{said}"
        )
    return "refused" if code else "good"


def main(arguments: list[str] | None = None) -> None:
    """Checks them and prints how many were good and refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    random_, found, began = random.Random(chosen.seed), Counter[str](), time.monotonic()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            (Path(name) / "corpus.txt").write_text("words to read, some of them twice, words to read. " * 400)
            bases = [path.read_text().replace("corpus: stdlib", "text: corpus.txt") for path in SWEEPS]
            for _ in range(chosen.files):
                found[check(mutated(random_, random_.choice(bases)), Path(name))] += 1
        finally:
            os.chdir(before)
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(found.items()))
    seconds = time.monotonic() - began
    sys.stdout.write(f"{chosen.files:,} files in {seconds:.0f} s: {counts}; no traceback, nothing stored\n")


if __name__ == "__main__":
    main()
