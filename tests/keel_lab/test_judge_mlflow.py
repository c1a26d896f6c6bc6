"""`keel-lab judge RUN_ID` on a real SQLite store: metrics by step, keel_lab's own curves, what is not there."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from keel_lab.cli import cli
from keel_lab.curve import Curve, Step
from keel_lab.errors import UsageError
from tests.simulated_curves import TRENDS, gaussian, losses


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A database with runs: `good`, `lost` (NaN at its end), `twice` (resumed from step 100), `ours`, `empty`."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("x", artifact_location=(folder / "artifacts").as_uri())
    healthy = losses(TRENDS["power law"], gaussian(0.05), 200, 0)

    def run(series, **tags):
        created = client.create_run(experiment, tags=tags)
        points = [
            Metric(name, value, 1_700_000_000_000 + at, step)
            for name, values in series.items()
            for at, (step, value) in enumerate(values)
        ]
        for start in range(0, len(points), 500):
            client.log_batch(created.info.run_id, metrics=points[start : start + 500])
        return created.info.run_id

    steps = list(enumerate(healthy, start=1))
    lrs = [(step, 1e-3 * step) for step, _ in steps]
    runs = {
        "good": run({"train/loss": steps, "train/lr": lrs}),
        "lost": run({"loss": [*steps[:150], (151, math.nan), (152, math.inf), (153, math.nan)], "learning_rate": lrs}),
        "twice": run({"train_loss": [*steps[:150], *steps[100:]]}),
        "empty": run({"accuracy": steps[:2]}),
        "ours": run({"train/loss": steps[::5]}, **{"keel_lab.trial_id": "t"}),
    }
    curve = Curve()
    for step, value in steps:
        curve.append(Step(step, value if step <= 190 else math.nan, 1e-3 * step, 3.2))
    (folder / "curve.parquet").write_bytes(curve.to_parquet())
    client.log_artifact(runs["ours"], str(folder / "curve.parquet"))
    return uri, runs


def judged(store, name, *arguments):
    uri, runs = store
    call = ["judge", runs.get(name, name), "--tracking", uri, "--json", *arguments]
    done = CliRunner().invoke(cli, call, standalone_mode=False, catch_exceptions=False)
    (found,) = json.loads(done.stdout)
    return found


def test_metrics_become_a_curve(store):
    found = judged(store, "good")
    assert (found["verdict"], found["last_good_step"], found["last_good_lr"]) == ("healthy", 200, 0.2)
    assert found["file"] == store[1]["good"]
    assert found["evidence"]["log"]["columns"] == {"loss": "train/loss", "step": "step", "lr": "train/lr"}
    assert judged(store, f"runs:/{store[1]['good']}")["verdict"] == "healthy"


def test_nan_and_inf_come_through(store):
    found = judged(store, "lost")
    assert (found["mode"], found["onset_step"], found["last_good_step"]) == ("non_finite", 151, 150)
    assert found["last_good_lr"] == pytest.approx(0.15)
    assert found["evidence"]["non_finite_steps"] == 3


def test_a_resumed_run_is_split(store):
    found = judged(store, "twice")
    assert (found["evidence"]["log"]["runs"], found["evidence"]["samples"]) == (2, 100)


def test_of_our_own_runs_the_whole_curve_is_judged(store):
    found = judged(store, "ours")  # its thinned metrics hold no NaN
    assert (found["mode"], found["last_good_step"], found["evidence"]["samples"]) == ("non_finite", 190, 190)
    assert judged(store, "ours", "--loss", "train/loss")["evidence"]["samples"] == 40


@pytest.mark.parametrize(
    ("name", "said"),
    [("f" * 32, "there is no such run in sqlite:"), ("empty", "there is no loss column .* there are accuracy")],
)
def test_what_is_not_there(store, name, said):
    with pytest.raises(UsageError, match=said) as error:
        judged(store, name)
    assert "\n" not in str(error.value)


def test_a_server_that_is_away_and_an_unknown_store(tmp_path):
    def judge(uri):
        CliRunner().invoke(cli, ["judge", "0" * 32, "--tracking", uri], standalone_mode=False, catch_exceptions=False)

    with pytest.raises(UsageError, match=r"there is no MLflow database .*give --tracking URI"):
        judge(f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(UsageError, match="MLflow does not answer: connection refused"):
        judge("http://127.0.0.1:9")
    with pytest.raises(UsageError, match="no tracking URI is known"):
        judge("off")
