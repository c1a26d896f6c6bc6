"""Predictions beside measurements, the table of `keel-lab probe`, its figures, and the command itself."""

import csv
import io
import json
import math

import pytest

from analysis.skip_product import skip_product
from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import MEASURES, Flow, Moment
from tests.command_line import call

SMALL = ["model.width=8", "model.heads=2", "model.kv_heads=1", "model.ffn_width=8", "model.context=16"]
SMALL += ["grid.depth.blocks=[2]", "train.batch_size=2", "schedule.steps=6", "schedule.warmup=50%", "name=small"]
SWEEP = ["sweeps/gradient_flow.yaml", *SMALL]


def flow(alpha: float, branch: float, normed: list[bool | None], **changes: list[float]) -> tuple[Flow, Moment]:
    """A stream of unit rms with uncorrelated branches, measured as predicted."""
    count, total = len(normed), math.hypot(alpha, branch)
    values = {name: [math.nan] * count for name in MEASURES}
    values[names.STREAM_RMS], values[names.SKIP_RMS] = [1.0] * count, [alpha] * count
    values[names.BRANCH_RMS], values[names.SUM_RMS] = [branch] * count, [total] * count
    values[names.RADIAL] = [0.0] * count
    values[names.SKIP_PRODUCT] = [(alpha / total) ** (count - at) for at in range(count)]
    moment = Moment(0, 5.0, values | changes)
    return Flow("x", tuple(normed), (), (moment,)), moment


def test_post_ln_with_unit_branches_is_two_to_the_minus_half_l() -> None:
    found = skip_product(*flow(1.0, 1.0, [True] * 10), 0.0, 0)
    assert found.predicted == pytest.approx(2**-5)
    assert found.of_unit_branches == pytest.approx(2**-5)
    assert found.gap == pytest.approx(0.0, abs=1e-12)


def test_keel_with_unit_branches_tends_to_one() -> None:
    found = skip_product(*flow(512.0, 1.0, [True] * 512), 0.0, 0)
    assert found.predicted == pytest.approx((1 + 512**-2) ** -256)
    assert 0.999 < found.predicted < 1


def test_only_a_norm_shrinks_and_only_from_the_first_sub_layer_on() -> None:
    assert skip_product(*flow(1.0, 1.0, [False] * 8), 0.0, 0).predicted == 1.0
    assert skip_product(*flow(1.0, 1.0, [True, False] * 4), 0.0, 2).predicted == pytest.approx(2**-1.5)


def test_the_gap_is_the_product_of_its_factors() -> None:
    made, moment = flow(
        1.0, 1.0, [True] * 3, sum_rms=[1.2, 1.3, 1.5], radial=[0.0, 0.1, 0.02], skip_product=[0.4, 0, 0]
    )
    found = skip_product(made, moment, 1e-5, 0)
    assert found.correlation * found.radial * found.rest == pytest.approx(1 + found.gap)
    assert found.radial == pytest.approx(math.sqrt(0.9 * 0.98))


def test_a_step_that_is_no_affine_one_has_no_prediction() -> None:
    found = skip_product(*flow(1.0, 1.0, [True, None, True]), 0.0, 0)
    assert found.measured > 0
    assert math.isnan(found.predicted)
    assert math.isnan(found.gap)


def test_the_command_prints_every_trial_and_moment_and_measures_once(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KEEL_LAB_STORAGE", str(tmp_path / "store"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)  # which mlflow.set_tracking_uri leaves behind
    first = call(
        capsys, "probe", *SWEEP, "grid.architecture=[post_ln, highway]", "--at", "init,100%", "--format", "csv"
    )
    assert first.code == 0, first.err
    rows = list(csv.DictReader(io.StringIO(first.out)))
    assert [(row["architecture"], row["step"]) for row in rows] == [
        *(("post_ln", "0"), ("post_ln", "6"), ("highway", "0"), ("highway", "6"))
    ]
    assert abs(float(rows[0]["skip_gap"])) < 0.2
    assert rows[2]["skip_gap"] == rows[0]["tiny_moments_median"] == ""
    assert float(rows[1]["drift_median"]) > 0
    assert "probing 2 of 2" in first.err
    figures = sorted((tmp_path / "store" / "probes" / "small").iterdir())
    assert [figure.name for figure in figures] == ["flow-b2-w8.png", "flow-b2-w8.svg"]
    drawn = [figure.read_bytes() for figure in figures]
    again = call(
        capsys, "probe", *SWEEP, "grid.architecture=[post_ln, highway]", "--at", "100%,init", "--format", "csv"
    )
    assert again.out == first.out
    assert "probing" not in again.err
    assert [figure.read_bytes() for figure in figures] == drawn
    assert not (tmp_path / "store" / "sweeps").exists()
    assert_mirrored_once(tmp_path / "store")


def assert_mirrored_once(store) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{store}/mlflow.db")
    experiment = client.get_experiment_by_name("small")
    assert "post_ln, highway" in experiment.tags["mlflow.note.content"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status, run.data.tags["kind"]) == ("probe", "FINISHED", "probe")
    assert "| post_ln-b2-s0 |" in run.data.tags["mlflow.note.content"]
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"probe.md", "probe.csv", "flow-b2-w8.png", "flow-b2-w8.svg"}


def test_an_mlflow_that_is_away_costs_the_probe_nothing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KEEL_LAB_STORAGE", str(tmp_path / "store"))
    words = ["probe", *SWEEP, "grid.architecture=[post_ln]", "--at", "init"]
    ended = call(capsys, *words, "--tracking", "http://127.0.0.1:9")
    assert ended.code == 0
    assert "post_ln-b2-s0" in ended.out
    assert "the probe was not delivered to MLflow at http://127.0.0.1:9: connection refused;" in ended.err


def test_the_other_formats(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KEEL_LAB_STORAGE", str(tmp_path / "store"))
    words = ["probe", *SWEEP, "grid.architecture=[residual_dual]", "--at", "init", "--tracking", "off"]
    found = json.loads(call(capsys, *words, "--json").out)
    assert found["rows"][0]["skip_predicted"] is None
    assert found["rows"][0]["grad_share_block_0"] > 0
    text, markdown = call(capsys, *words).out, call(capsys, *words, "--format", "md").out
    assert "residual_dual-b2-s0" in text
    assert "| residual_dual-b2-s0 | 8 | init |" in markdown


def test_a_moment_that_is_none_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KEEL_LAB_STORAGE", str(tmp_path / "store"))
    found = call(capsys, "probe", *SWEEP, "--at", "init,7")
    assert found.code == 2
    assert "--at: found 7, which is not within the run" in found.err
    assert not (tmp_path / "store").exists()
