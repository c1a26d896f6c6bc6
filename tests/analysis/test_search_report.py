"""The report of a search: the boundary's fit, what stands at an edge, and figures of searches of every kind."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import analysis.report
from analysis.search.boundary import boundary
from analysis.search.findings import position
from keel_lab.spec.domain import Domain
from keel_lab.spec.search import Parameter
from tests.search_bench import Bench


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", "off")
    return Bench(tmp_path)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 1.0])
def test_the_boundary_lies_where_runs_begin_to_diverge(slope) -> None:
    places = np.random.default_rng(0).uniform(-1.0, 1.0, size=(300, 2))
    beyond = places[:, 0] > 0.2 + slope * places[:, 1]
    found = boundary([tuple(one) for one in places[~beyond]], [tuple(one) for one in places[beyond]])
    assert found is not None
    for row, y in enumerate(found.y):
        edge = 0.2 + slope * y
        if -0.9 < edge < 0.9:
            crossing = found.x[int(np.argmax(found.probability[row] > 0.5))]
            assert crossing == pytest.approx(edge, abs=0.15)


def test_there_is_no_boundary_with_two_points_of_a_kind() -> None:
    places = [(float(number), float(number % 3)) for number in range(8)]
    assert boundary(places[:6], places[6:]) is None
    assert boundary(places[:2], places[2:]) is None


def test_a_place_in_a_range_is_measured_on_its_own_scale() -> None:
    lr = Parameter("schedule.lr", "lr", Domain("log_uniform", 1e-4, 1e-2))
    alpha = Parameter("options.alpha", "alpha", Domain("uniform", "L/2", "2L"))
    assert position(lr, 1e-3, 8) == pytest.approx(0.5)
    assert position(alpha, 7.0, 8) == pytest.approx(0.25)


def test_a_best_point_at_the_end_of_its_range_is_said_to_be_there(bench) -> None:
    begin = "search.warm_start={points: [{lr: 5e-3, alpha: L}]}"
    bench.run(begin, "search.space.lr={log_uniform: [1e-3, 5e-3]}", "search.points=4", "search.remeasure.best=1")
    text = analysis.report.build("bowl", bench.root)
    assert "The best point stands at the upper end of lr" in text
    assert "extend search.space.lr" in text


def test_where_every_point_is_in_and_none_came_to_a_value_it_is_said(bench) -> None:
    bench.run("search.space={lr: {log_uniform: [0.2, 0.9]}}", "search.points=2", "search.remeasure=off")
    text = " ".join(analysis.report.build("bowl", bench.root).split())
    assert "none yet" not in text
    assert "No point came to a value; keel-lab status bowl says of each trial why" in text
    assert "more schedule.steps" in text


def test_two_objectives_give_a_front_a_map_and_no_rank_by_max_lr_alone(bench) -> None:
    bench.run("search.objectives=[val_loss, max_lr]", "search.points=14")
    text = analysis.report.build("bowl", bench.root, "md")
    assert "Pareto front for val_loss (minimize), max_lr (maximize)" in text
    assert "Importance of the parameters" in text
    first = {
        path.suffix: path.read_bytes() for path in analysis.report.figures(["bowl"], bench.root, bench.folder / "1")
    }
    again = {
        path.suffix: path.read_bytes() for path in analysis.report.figures(["bowl"], bench.root, bench.folder / "2")
    }
    assert first == again
    assert "Max LR of the ramp" in first[".svg"].decode()
    assert "half of the runs diverge" in first[".svg"].decode()
    alone = "search.space={alpha: {log_uniform: [1, 4L]}}"
    bench.run("name=alone", "search.objectives=max_lr", alone, "search.points=3", "search.remeasure.best=0")
    assert "Max LR alone ranks nothing" in " ".join(analysis.report.build("alone", bench.root).split())


def test_a_search_and_a_ramp_stand_in_one_report_but_not_in_one_csv(bench) -> None:
    from keel_lab.errors import UsageError

    bench.run("search.points=3", "search.remeasure.best=0")
    bench.run("name=ramps", "protocol=ramp", "search=null", "schedule=null", "siblings.reference=false")
    text = analysis.report.build(["bowl", "ramps"], bench.root)
    assert "Max LR by architecture" in text
    assert "Best points for val_loss" in text
    assert len(analysis.report.build("bowl", bench.root, "csv").splitlines()) == 1 + 3
    assert "tabular" in analysis.report.build("bowl", bench.root, "tex")
    with pytest.raises(UsageError, match="reports of their own"):
        analysis.report.build(["bowl", "ramps"], bench.root, "csv")


def test_at_fixed_parameters_the_width_that_follows_from_the_depth_is_shown(bench) -> None:
    split = (
        "search.parameters=100000",
        "search.per=all",
        "grid.depth.blocks=[2, 8]",
        "search.space={lr: {log_uniform: [1e-3, 1e-1]}}",
    )
    bench.run(*split, "grid.architecture=[plain]", "search.points=8", "search.remeasure.best=0")
    text = analysis.report.build("bowl", bench.root)
    heads = next(line.split() for line in text.splitlines() if line.startswith("point"))
    row = next(line.split() for line in text.splitlines() if line.startswith("#"))
    shown = dict(zip(heads, row, strict=False))
    assert shown["width"] == {"2": "224", "8": "112"}[shown["blocks"]]
    assert "Width: what gives about 100,000 parameters at that depth" in text
    points = csv.DictReader(io.StringIO(analysis.report.build("bowl", bench.root, "csv")))
    found = {(one["blocks"], one["width"], one["parameters"]) for one in points}
    assert found == {("2", "224", "100352"), ("8", "112", "100352")}


def test_why_points_were_pruned_that_did_not_diverge_is_counted(bench) -> None:
    bench.run("search.objectives={tokens_to_loss: {target: 0.5}}", "search.points=3", "search.remeasure.best=0")
    text = analysis.report.build("bowl", bench.root)
    assert "tokens_to_loss not reached)" in " ".join(text.split())
