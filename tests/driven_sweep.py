"""`keel-lab run` of toy trials in processes of its own, for tests that do something to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.toy_sweep import outcome
from tests.toy_trainer import starts

REPOSITORY = Path(__file__).parents[1]
PATIENCE = 180.0  # seconds; only ever waited for when something is broken
SWEEP = """\
schema: 1
name: toys
protocol: ramp
trainer: tests.toy_trainer
grid:
  architecture: [toy]
  depth: {blocks: [4]}
  seed: SEEDS
ramp: {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: STEPS}
resources: {cpus: 1, memory: 64MiB}
siblings: {reference: false}
"""


class DrivenSweep:
    """A sweep file in a folder, its storage (by default beside it), and whoever runs it."""

    def __init__(self, folder: Path, store: Path | None = None, *, seeds: int = 6, steps: int = 200) -> None:
        self.folder = folder
        self.store = folder / "store" if store is None else store
        self.side = folder / "side"
        folder.mkdir(parents=True, exist_ok=True)
        text = SWEEP.replace("SEEDS", str(list(range(1, seeds + 1)))).replace("STEPS", str(steps))
        (folder / "toys.yaml").write_text(text)

    def start(self, *words: str, sleep: float = 0.0, **environment: str) -> subprocess.Popen[str]:
        """`keel-lab WORDS` on this storage, without tracking; standard error goes to a file."""
        return self._process(words, sleep, environment, (self.folder / "stderr.txt").open("w"))

    def call(self, *words: str, expect: int = 0, sleep: float = 0.0, **environment: str) -> tuple[str, str]:
        """The same to its end: standard output and error."""
        process = self._process(words, sleep, environment, subprocess.PIPE)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == expect, out + err
        assert "Traceback" not in err, err
        return out, err

    def end(self, process: subprocess.Popen[str], expect: int = 0) -> tuple[str, str]:
        """Waits for one that was started: standard output and error."""
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == expect, out + self.said
        assert "Traceback" not in self.said, self.said
        return out, self.said

    def wait_until(self, process: subprocess.Popen[str], true: Callable[[], bool]) -> None:
        """Waits for a moment of a run."""
        until = time.monotonic() + PATIENCE
        while not true():
            assert process.poll() is None, f"it ended early:\n{self.said}"
            assert time.monotonic() < until, f"it never came to that:\n{self.said}"
            time.sleep(0.02)

    @property
    def said(self) -> str:
        """Standard error of what was started."""
        return (self.folder / "stderr.txt").read_text()

    @property
    def root(self) -> Root:
        """Its storage."""
        return Root.open(self.store)

    @property
    def finished(self) -> int:
        """How many results there are."""
        return len(list(self.store.glob("trials/*/result.json")))

    @property
    def begun(self) -> int:
        """How often a trial was started."""
        return sum(len(starts(self.side, path.name)) for path in self.side.glob("*"))

    def status(self) -> Mapping[str, Any]:
        """What `keel-lab status` knows."""
        known: Mapping[str, Any] = json.loads(self.call("status", "toys", "--json")[0])
        return known

    def results(self) -> dict[str, tuple[bytes, dict[str, object]]]:
        """By trial, what must not depend on what was done to it: the curve's bytes and the result's numbers."""
        return {one.trial.id: outcome(self.root, one.trial) for one in Sweeps(self.root).load("toys").trials}

    def report(self) -> str:
        """The report, as JSON."""
        return self.call("report", "toys", "--format", "json")[0]

    def failures(self) -> list[str]:
        """Kinds of all failed attempts."""
        trials = Trials(self.root)
        return [str(one.kind) for name in self.root.list("trials") for one in trials.attempts(name)]

    def _process(
        self, words: tuple[str, ...], sleep: float, environment: Mapping[str, str], errors: Any
    ) -> subprocess.Popen[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("KEEL_", "MLFLOW", "RAY"))}
        clean |= {"KEEL_LAB_STORAGE": str(self.store), "KEEL_TOY_SIDE": str(self.side), "KEEL_TOY_SLEEP": str(sleep)}
        clean["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        more = ("--tracking", "off") if words[0] in ("run", "resume") else ()
        return subprocess.Popen(
            [sys.executable, "-m", "keel_lab", *words, *more],
            cwd=self.folder, env=clean | environment, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        )  # fmt: skip
