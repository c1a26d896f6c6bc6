"""What tracking costs, beside what users know, and how long the table from 10,000 stored runs takes.

    python benchmarks/tracking.py [trials] [steps] [rounds] [stored]     # 10 300 3 10000; some minutes

Clients take turns on equal curves of five metrics, on SQLite and on a PostgreSQL that is started for it, without fsync;
the order turns round by round. Read the ratios, and the load of the machine beside them. The second part is
benchmarks/stored_runs.py.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import postgres, stored_runs
from benchmarks.tracking_clients import CLIENTS, Client, Sweep, curve_of, values_of
from keel_lab.track.writer import import_mlflow

USUAL = (10, 300, 3, 10_000)
Costs = dict[tuple[str, str], dict[str, list[float]]]  # database, client -> "step", "wall" -> seconds, one a round


def measure(client: type[Client], sweep: Sweep, folder: str, uri: str) -> tuple[float, float]:
    """Seconds a step on the training thread, and a trial from its start until everything is in the database."""
    told = [(planned, curve, values_of(curve)) for planned in sweep.trials for curve in [curve_of(planned)]]
    steps, spent = sum(len(curve) for _, curve, _ in told), 0.0
    begin = time.perf_counter()
    tracking = client(sweep, folder, uri)
    for planned, curve, values in told:
        tracking.start(planned)
        for step, value in zip(curve, values, strict=True):
            called = time.perf_counter()
            tracking.step(step, value)
            spent += time.perf_counter() - called
        tracking.end(planned, curve)
    tracking.close()
    return spent / steps, (time.perf_counter() - begin) / len(told)


def check(sweep: Sweep, uri: str) -> int:
    """How many points of the loss each run has, after making sure that all runs are there and ended."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name(sweep.name).experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"] * len(sweep.trials)
    (points,) = {len(client.get_metric_history(run.info.run_id, "train/loss")) for run in runs}
    return points


def compare(
    trials: int, steps: int, rounds: int, databases: dict[str, str], folder: Path
) -> tuple[Costs, dict[str, int]]:
    """All clients on all databases, in turns."""
    from mlflow.tracking import MlflowClient

    costs: Costs = {}
    points: dict[str, int] = {}
    for turn in range(-1, rounds):  # the first one warms up: imports, tables, pages
        for kind, uri in databases.items():
            for number in range(len(CLIENTS)):
                client = CLIENTS[(number + turn) % len(CLIENTS)]
                few = (1, min(steps, 20)) if turn < 0 else (trials, steps)
                sweep = Sweep(f"{client.name} {turn}", *few)
                MlflowClient(uri).create_experiment(sweep.name, artifact_location=(folder / sweep.name).as_uri())
                step, wall = measure(client, sweep, str(folder), uri)
                points[client.name] = check(sweep, uri)
                if turn >= 0:
                    found = costs.setdefault((kind, client.name), {"step": [], "wall": []})
                    found["step"].append(step)
                    found["wall"].append(wall)
    return costs, points


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """MLflow's URIs by the name of the database; says how to get a PostgreSQL that is not there."""
    sqlite = {"SQLite": f"sqlite:///{folder}/mlflow.db"}
    if not any(postgres.PROGRAMS.glob("*/bin")):
        say(postgres.HOW_TO_GET_IT)
        yield sqlite
        return
    with postgres.running() as uri:
        yield {**sqlite, "PostgreSQL": uri}


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table(costs: Costs, points: dict[str, int]) -> None:
    """Prints medians over the rounds, and how many times ours each is."""
    for kind in dict.fromkeys(kind for kind, _ in costs):
        say(f"{kind:31} {'a step':>11} {'':>9} {'a trial':>11} {'':>9}   points a metric; it writes")
        ours = costs[kind, CLIENTS[0].name]
        for client in CLIENTS:
            found = costs[kind, client.name]
            step, wall = (statistics.median(found[what]) for what in ("step", "wall"))
            ratios = [
                statistics.median(other / own for other, own in zip(found[what], ours[what], strict=True))
                for what in ("step", "wall")
            ]
            words = f"{step * 1e3:8.4f} ms {ratios[0]:7.0f} x {wall * 1e3:8.0f} ms {ratios[1]:7.1f} x"
            say(f"{client.name:31} {words}   {points[client.name]:3}; {client.writes}")


def main() -> None:
    """Prints both parts."""
    trials, steps, rounds, stored = (*map(int, sys.argv[1:]), *USUAL[len(sys.argv) - 1 :])
    for noisy in ("mlflow", "alembic", "lightning", "lightning.pytorch"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="kl") as name:
        folder = Path(name)
        os.chdir(folder)  # whoever writes beside itself writes here
        import_mlflow()
        say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {trials} trials of {steps} steps, {rounds} rounds")
        with databases(folder) as there:
            table(*compare(trials, steps, rounds, there, folder))
        say(f"load {os.getloadavg()[0]:.1f}")
        stored_runs.measure(stored, folder, say)
        say(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
