"""What the scheduler adds to trials: makespan and memory of a sweep of thousands; Ray Tune's cost a trial beside ours.

    python benchmarks/scheduler.py [trials] [tune-trials]

Trials train nothing: they sleep 50 ms for the makespan, and nothing at all for the cost a trial. All of it runs one
after the other in one call; read the ratios, and the load of the machine beside them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.null_trainer import SECONDS

HERE = Path(__file__).resolve().parents[1]
SLEEP = 0.05
SLOTS = 2
POLL = 0.5  # seconds between two looks at the driver's memory


def sweep_file(folder: Path, trials: int) -> Path:
    """A grid of as many null trials as asked, in families of ten LRs, for as many slots as `SLOTS`."""
    cpus = max(1, (os.cpu_count() or 1) // SLOTS)
    rows = max(1, trials // 100)  # cells of ten LRs and ten seeds
    depths = min(10, rows)
    text = f"""schema: 1
name: nulls
question: What does a trial cost?
protocol: grid
trainer: benchmarks.null_trainer
grid:
  architecture: [{", ".join(f"null{number}" for number in range(rows // depths))}]
  depth: {{blocks: [{", ".join(str(number + 1) for number in range(depths))}]}}
  lr: [{", ".join(f"{1e-4 * 1.5**number:.4g}" for number in range(10))}]
  seed: [{", ".join(map(str, range(10)))}]
schedule: {{steps: 2, warmup_steps: 0}}
resources: {{cpus: {cpus}, memory: 64MiB}}
"""
    file = folder / "nulls.yaml"
    file.write_text(text)
    return file


def command(folder: Path, *words: str, sleep: float = 0.0) -> dict[str, float]:
    """Runs `keel-lab WORDS...`; its wall and CPU seconds (children that it waited for included), and peak memory."""
    environment = os.environ | {"PYTHONPATH": str(HERE), SECONDS: str(sleep)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    called = [sys.executable, "-m", "keel_lab", *words, "--storage", str(folder / "store")]
    with (
        (folder / "err.txt").open("w") as errors,
        subprocess.Popen(called, env=environment, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _peak(process.pid))
            time.sleep(POLL if "run" in words else 0.01)
    if process.returncode:
        raise SystemExit(f"{' '.join(called)} failed:\n{(folder / 'err.txt').read_text()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": time.perf_counter() - begin, "cpu": cpu, "peak": peak}


def _peak(pid: int) -> float:
    """Peak resident memory of a process, in MB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM")), 0.0)


def makespan(folder: Path) -> tuple[int, float]:
    """How many trials have a result, and the seconds from the first one's start to the last one's end."""
    facts = [json.loads(path.read_text())["execution"] for path in folder.glob("store/trials/*/result.json")]
    return len(facts), max(one["finished_at"] for one in facts) - min(one["started_at"] for one in facts)


TUNE = """
import os, sys, time
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", RAY_AIR_NEW_OUTPUT="0")
import ray
from ray import tune

class Null(tune.Trainable):
    def setup(self, config): pass
    def step(self): return {"loss": 5.0, "done": True}
    def save_checkpoint(self, folder): pass
    def reset_config(self, config): return True

ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=100 * 2**20,
         _temp_dir=sys.argv[3], num_cpus=2)
trainable = tune.with_resources(Null, {"cpu": 1})
begin = time.perf_counter()
tune.Tuner(
    trainable,
    param_space={"seed": tune.grid_search(list(range(int(sys.argv[1]))))},
    tune_config=tune.TuneConfig(reuse_actors=sys.argv[2] == "reuse"),
    run_config=tune.RunConfig(storage_path=sys.argv[4], verbose=0),
).fit()
print((time.perf_counter() - begin) / int(sys.argv[1]))
"""


BARE = """
import os, queue, sys, time
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")
import ray

ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=100 * 2**20,
         _temp_dir=sys.argv[4], num_cpus=int(sys.argv[3]))
tasks, seconds = int(sys.argv[1]), float(sys.argv[2])
@ray.remote(max_retries=0)
def sleep(seconds):
    time.sleep(seconds)

ray.get([sleep.remote(0.1) for _ in range(2 * int(sys.argv[3]))])
done, begun = queue.SimpleQueue(), 2 * int(sys.argv[3])
begin = time.perf_counter()
for _ in range(begun):
    sleep.remote(seconds).future().add_done_callback(done.put)
for _ in range(tasks):
    done.get()
    if begun < tasks:
        begun += 1
        sleep.remote(seconds).future().add_done_callback(done.put)
print(time.perf_counter() - begin)
"""


def bare(tasks: int) -> float:
    """Seconds that plain Ray tasks take which only sleep: the least that a scheduler on Ray can do."""
    with tempfile.TemporaryDirectory(prefix="kl") as scratch:
        called = [sys.executable, "-c", BARE, str(tasks), str(SLEEP), str(SLOTS), scratch]
        done = subprocess.run(called, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"plain Ray failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def tune(trials: int, how: str) -> float:
    """Seconds a trial of Ray Tune, over so many trials that do nothing."""
    with tempfile.TemporaryDirectory(prefix="kl") as scratch:
        called = [sys.executable, "-c", TUNE, str(trials), how, f"{scratch}/ray", f"{scratch}/results"]
        done = subprocess.run(called, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Ray Tune failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def measure_sweep(trials: int) -> None:
    """Prints makespan, memory and what looking at the sweep takes."""
    with tempfile.TemporaryDirectory(prefix="kl") as name:
        folder = Path(name)
        run = command(folder, "run", str(sweep_file(folder, trials)), "--tracking", "off", sleep=SLEEP)
        count, seconds = makespan(folder)
        ideal = count * SLEEP / SLOTS
        ratio = f"makespan {seconds:.1f} s, {seconds / ideal:.3f} of ideal"
        say(f"{count} trials of {SLEEP * 1000:.0f} ms on {SLOTS} slots: {ratio}")
        few = min(trials, 1000)
        floor = bare(few) / (few * SLEEP / SLOTS)
        say(f"{few} plain Ray tasks that sleep as long and do nothing else: {floor:.3f} of ideal")
        say(f"the whole command: {run['wall']:.1f} s; peak memory of the driver {run['peak']:.0f} MB")
        for words in (("status", "nulls"), ("report", "nulls"), ("resume", "nulls", "--tracking", "off")):
            took = command(folder, *words)
            say(f"{words[0]}: {took['wall']:.2f} s, of CPU {took['cpu']:.2f} s; peak memory {took['peak']:.0f} MB")


def main() -> None:
    """Prints everything."""
    trials, few = [int(word) for word in [*sys.argv[1:], "10000", "200"][:2]] if len(sys.argv) > 2 else [10_000, 200]
    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    measure_sweep(trials)
    say(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="kl") as name:
        command(Path(name), "run", str(sweep_file(Path(name), few)), "--tracking", "off")
        count, seconds = makespan(Path(name))
    ours = seconds / count
    say(f"{count} trials that do nothing: keel_lab {1000 * ours:.1f} ms a trial")
    for how in ("reuse", "plain"):
        cost = tune(few, how)
        words = "Ray Tune with reuse_actors" if how == "reuse" else "Ray Tune"
        say(f"{few} trials that do nothing: {words} {1000 * cost:.1f} ms a trial, {cost / ours:.1f} times ours")
    say(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
