"""Does a sweep lose anything? Faults drawn from a seed hit it until so many did; then it is compared with a calm one.

    python benchmarks/chaos.py [--trials 200] [--faults 200] [--seed 0] [--folder FOLDER]

Drivers with Ray and without are started again and again, as `keel-lab resume`. In the end every trial must have
exactly one valid result, its curve must equal, byte for byte, that of a sweep to which nothing was done, and the report
as well. A full disk and a read-only one need root, for a file system of their own; without it they are left out.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO

from benchmarks.chaos_faults import FAULTS, MOUNTED, SOON, Fault, Scene, build_clock
from keel_lab.store.committed import read_file, read_result
from keel_lab.store.root import Root
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials

REPOSITORY = Path(__file__).resolve().parents[1]
PATIENCE = 300.0  # seconds within which a driver comes to anything
SWEEP = """\
schema: 1
name: chaos
protocol: ramp
trainer: benchmarks.chaos_trainer
grid:
  architecture: [chaos]
  depth: {blocks: [4]}
  seed: SEEDS
ramp: {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 60}
divergence: {confirm_samples: 20}
resources: {cpus: 1, memory: 64MiB}
siblings: {reference: false}
"""
EXPECTED = {0, 1, 2, 3, 130, 143, -9, -15}  # of drivers that things are done to; -15: SIGTERM while it only reports
PACE = 0.03  # seconds a step
WITHOUT_RAY = 0.5  # of the drivers
EARLY = 0.2  # of the drivers that are struck from before they have a worker on
DAMAGES = 5  # to what is stored, where a sweep is complete before all faults have struck
REPORTS = ("text", "csv", "json")


class Chaos:
    """One sweep and all that is done to it."""

    def __init__(self, folder: Path, faults: int, seed: int, library: Path) -> None:
        self._random = random.Random(seed)
        self._folder, self._left = folder, faults
        place = folder / "place"
        place.mkdir()
        mounted = os.geteuid() == 0
        if mounted:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", place], check=True)
        offset = folder / "offset"
        offset.write_text("0")
        # Ray keeps its clock: its waits hang where only the processes' clock is off, and not the kernel's as well.
        clock = {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(offset)}
        self._environment = {"ray": SOON, "local": clock}
        self.scene = Scene(self._random, place, place / "store", offset, mounted, self._rival)
        self.done: Counter[str] = Counter()
        self.drivers: Counter[str] = Counter()
        self.codes: Counter[int] = Counter()

    def run(self) -> None:
        """Until all faults have struck and the sweep is complete."""
        calm = False
        while not calm:  # until a driver to which nothing was done finds nothing wrong
            before = self._left
            calm = self._start_and_strike() == 0 and before == 0

    def close(self) -> None:
        """Ends the driver, if one is left, and unmounts."""
        if self.scene.driver is not None:
            self.scene.driver.kill()
            self.scene.driver.wait()
        if self.scene.mounted:
            subprocess.run(["umount", "-l", self.scene.place], check=True)

    def _start_and_strike(self) -> int:
        executor = "local" if self.drivers and self._random.random() < WITHOUT_RAY else "ray"
        pace = {"CHAOS_SLEEP": str(PACE if self._left else 0.0)}  # slow while there is something to interrupt
        log = self._folder / "stderr.txt"
        with log.open("w") as sink:
            driver = self.scene.driver = keel_lab(
                self._folder, self.scene.store, self._words(), executor, self._environment[executor] | pace, sink
            )
        self.drivers[executor] += 1
        begun = "trials" if self._random.random() < EARLY else ": started"
        _wait(lambda: driver.poll() is not None or begun in log.read_text(), log)
        while self._left and driver.poll() is None:
            time.sleep(self._random.uniform(0.05, 0.5))
            if driver.poll() is None and self._strike(executor).ends:
                break
        code = driver.wait(PATIENCE)
        self.scene.driver = None
        if code == 0:  # complete too early: what is stored is damaged, and there is work again
            for _ in range(min(self._left, DAMAGES)):
                self._strike("")
        said = log.read_text()
        if code not in EXPECTED or "Traceback" in said:
            raise SystemExit(f"a driver ended with {code} and said:\n{said}")
        self.codes[code] += 1
        return code

    def _words(self) -> list[str]:
        stored = (self.scene.store / "sweeps" / "chaos" / "sweep.json").exists()
        return ["resume", "chaos"] if stored else ["run", str(self._folder / "chaos.yaml")]

    def _strike(self, executor: str) -> Fault:
        """One fault of those that the moment allows."""
        allowed = [fault for fault in FAULTS if fault.needs in ("", executor, "driver" if executor else "")]
        allowed = [fault for fault in allowed if self.scene.mounted or fault.name not in MOUNTED]
        while True:
            (fault,) = self._random.choices(allowed, [fault.weight for fault in allowed])
            if self.scene.driver is not None and self.scene.driver.poll() is not None:
                return fault
            if fault.strike(self.scene):
                break
            time.sleep(0.05)
        self.done[fault.name] += 1
        self._left -= 1
        sys.stderr.write(f"{sum(self.done.values())}: {fault.name}\n")
        return fault

    def _rival(self) -> int:
        rival = keel_lab(
            self._folder, self.scene.store, self._words(), "local", self._environment["local"], subprocess.DEVNULL
        )
        return rival.wait(PATIENCE)


def keel_lab(
    folder: Path,
    store: Path,
    words: list[str],
    executor: str,
    environment: dict[str, str],
    errors: IO[str] | int | None,
) -> subprocess.Popen[str]:
    """A driver of its own, or any other command if `executor` is empty."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KEEL_", "MLFLOW", "RAY"))}
    paths = [str(REPOSITORY), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    clean |= {"KEEL_LAB_STORAGE": str(store), "PYTHONPATH": os.pathsep.join(paths)} | environment
    how = ["--executor", executor, "--tracking", "off"] if executor else []
    return subprocess.Popen(
        [sys.executable, "-m", "keel_lab", *words, *how],
        cwd=folder, env=clean, stdout=subprocess.PIPE if not executor else subprocess.DEVNULL, stderr=errors, text=True,
        start_new_session=True,
    )  # fmt: skip


def outcomes(root: Root) -> dict[str, tuple[bytes, dict[str, object]]]:
    """By trial, the bytes of its curve's file, and its result less how it was run."""
    found = {}
    for planned in Sweeps(root).load("chaos").trials:
        trial_id = planned.trial.id
        read = read_result(root, trial_id)
        if read is None or Trials(root).result(trial_id) is None:
            raise SystemExit(f"trial {trial_id} has no valid result")
        result, files = read
        facts = {key: value for key, value in result.to_json().items() if key != "execution"}
        found[trial_id] = read_file(root, trial_id, files.curve), facts
    extra = set(root.list("trials")) - found.keys()
    if extra:
        raise SystemExit(f"trials that nobody asked for: {extra}")
    return found


def report(folder: Path, store: Path) -> list[str]:
    """The report in several forms."""
    said = [
        keel_lab(folder, store, ["report", "chaos", "--format", form], "", {}, subprocess.DEVNULL) for form in REPORTS
    ]
    return [process.communicate(timeout=PATIENCE)[0] for process in said]


def compare(folder: Path, calm: Path, shaken: Path) -> str:
    """What is equal, as a line; SystemExit says what is not."""
    expected, found = outcomes(Root.open(calm)), outcomes(Root.open(shaken))
    if found.keys() != expected.keys():
        raise SystemExit("the two sweeps are of different trials")
    for part, what in enumerate(("curve", "result")):
        other = [trial_id for trial_id in expected if found[trial_id][part] != expected[trial_id][part]]
        if other:
            raise SystemExit(f"the {what} of {len(other)} trials differs: {', '.join(other[:5])}")
    if report(folder, shaken) != report(folder, calm):
        raise SystemExit("the report differs")
    temporary = len(list(shaken.rglob(".*.tmp")))
    return (
        f"{len(found)} trials, each with one result; all curves and results equal those of the calm sweep byte for "
        f"byte, the report in {len(REPORTS)} forms as well; {temporary} temporary files of killed writers are left"
    )


def _wait(true: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            raise SystemExit(f"a driver never began and said:\n{log.read_text()}")
        time.sleep(0.05)


def main(arguments: list[str] | None = None) -> None:
    """Runs both sweeps, compares them, and prints what was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("trials", 200), ("faults", 200), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        text = SWEEP.replace("SEEDS", str(list(range(chosen.trials))))
        (folder / "chaos.yaml").write_text(text)
        calm = keel_lab(folder, folder / "calm", ["run", "chaos.yaml"], "local", {}, subprocess.DEVNULL)
        if calm.wait(PATIENCE) != 0:
            raise SystemExit("the calm sweep failed")
        began = time.monotonic()
        chaos = Chaos(folder, chosen.faults, chosen.seed, build_clock(folder))
        try:
            chaos.run()
            verdict = compare(folder, folder / "calm", chaos.scene.store)
        finally:
            chaos.close()
    say(chaos, verdict, time.monotonic() - began)


def say(chaos: Chaos, verdict: str, seconds: float) -> None:
    """Prints the counts."""
    drivers = ", ".join(f"{count} {name}" for name, count in sorted(chaos.drivers.items()))
    lines = [f"{sum(chaos.done.values())} faults in {seconds:.0f} s; drivers: {drivers}"]
    lines += [f"  {count:4d}  {name}" for name, count in chaos.done.most_common()]
    lines += ["exit codes of drivers: " + ", ".join(f"{code}: {n}" for code, n in sorted(chaos.codes.items()))]
    if not chaos.scene.mounted:
        lines += [f"left out, for want of root: {', '.join(MOUNTED)}"]
    sys.stdout.write("\n".join([*lines, verdict]) + "\n")


if __name__ == "__main__":
    main()
