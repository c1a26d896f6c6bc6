"""A search, run: what is asked, told, stored, asked again after an interruption, and what costs nothing."""

from __future__ import annotations

import json

import optuna
import pytest

from keel_lab.store.points import State
from keel_lab.store.sweeps import Sweeps
from keel_lab.store.trials import Trials
from tests.search_bench import Bench, asked


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.setenv("KEEL_LAB_OPTUNA", "off")
    return Bench(tmp_path)


def test_it_finds_the_best_and_measures_it_again_with_fresh_seeds(bench) -> None:
    summary = bench.run("search.points=25")
    assert (summary.exit_code, summary.left) == (0, 0)
    points, fresh = bench.points(), bench.points(fresh=True)
    best = min((point for point in points if point.told), key=lambda point: point.told)
    assert best.told[0] < 1.1  # 1.0 at the bottom, 1.3 a decade away
    assert len(fresh) == 2
    assert best.number in {point.number for point in fresh}
    assert {planned.trial.init_seed for point in fresh for planned in point.trials} == {1, 2}
    assert summary.completed + summary.diverged == 25 + 4


def test_a_diverged_point_is_pruned_with_the_losses_it_had(bench) -> None:
    bench.run("search.space.lr={log_uniform: [2e-1, 1]}", "schedule={shape: cosine, steps: 60, warmup_steps: 40}")
    points = bench.points()
    assert {point.state for point in points} == {State.PRUNED}
    assert all(point.told is None and point.facts["diverged"] == 1 for point in points)
    assert any(point.rungs for point in points)
    assert not bench.points(fresh=True)


def test_max_lr_is_told_as_a_value_and_censored_ones_are_marked(bench) -> None:
    bench.run("search.objectives=max_lr", "search.space={alpha: {power_of_L: [0, 2]}}", "ramp.peak_lr=0.06")
    points = bench.points()
    censored = [point for point in points if point.facts.get("censored")]
    assert {point.state for point in points} == {State.COMPLETE}
    assert censored
    assert {point.told for point in censored} == {(0.06,)}
    for point in points:
        if point not in censored:
            alpha = point.trials[0].trial.options["alpha"]
            assert point.told[0] == pytest.approx(0.05 * (alpha / 8) ** 0.5, rel=0.05)


def test_with_several_objectives_divergence_is_a_constraint(bench) -> None:
    bench.run("search.objectives=[val_loss, max_lr]", "search.sampler=nsga2")
    points = bench.points()
    assert {point.state for point in points} == {State.COMPLETE}
    assert {len(point.trials) for point in points} == {2}
    lost = [point for point in points if point.facts.get("diverged")]
    assert lost
    for point in points:
        assert (point.constraint > 0) == (point in lost)
    fresh = bench.points(fresh=True)
    assert fresh
    assert not {point.number for point in fresh} & {point.number for point in lost}


def test_crashed_trials_are_never_told_and_run_again_on_resume(bench, monkeypatch) -> None:
    monkeypatch.setenv("KEEL_BOWL_CRASH", "0.02")
    first = bench.run()
    assert first.exit_code == 1
    crashed = [point for point in bench.points() if point.state is State.RUNNING]
    assert len(crashed) == first.failed > 0
    assert all(point.told is None and not point.facts for point in crashed)
    monkeypatch.delenv("KEEL_BOWL_CRASH")
    assert bench.resume().exit_code == 0
    after = {point.number: point for point in bench.points()}
    assert all(after[point.number].drawn == point.drawn for point in crashed)
    assert all(point.state is not State.RUNNING for point in after.values())


def test_an_interrupted_search_asks_the_same_points(bench, tmp_path) -> None:
    bench.run()
    other = Bench(tmp_path / "elsewhere")
    other.folder.mkdir()
    for trials in (3, 6):
        assert other.run(f"budget.trials={trials}").exit_code == 3
    assert other.run().exit_code == 0
    assert asked(other.points()) == asked(bench.points())
    assert asked(other.points(fresh=True)) == asked(bench.points(fresh=True))


def test_points_that_are_in_storage_cost_nothing(bench) -> None:
    bench.run()
    again = bench.run("name=again")
    assert again.exit_code == 0
    assert asked(bench.points("again")) == asked(bench.points())
    assert again.reused == again.completed + again.diverged


def test_a_search_goes_on_with_more_points_but_not_in_another_space(bench) -> None:
    from keel_lab.errors import UsageError

    bench.run("search.remeasure=off")
    before = asked(bench.points())
    bench.run("search.points=14", "search.remeasure.best=0")
    assert asked(bench.points())[:12] == before
    assert len(bench.points()) == 14
    with pytest.raises(UsageError) as caught:
        bench.run("search.space.lr={log_uniform: [1e-3, 1]}")
    assert "search.space.lr.log_uniform: [0.001, 0.1] -> [0.001, 1.0]" in str(caught.value)
    assert "name=bowl-2 search.warm_start.from=bowl" in str(caught.value)


def test_it_begins_with_given_points_and_those_of_another_sweep(bench) -> None:
    bench.run()
    best = min((point for point in bench.points() if point.told), key=lambda point: point.told)
    bench.run(
        "name=second",
        "search.warm_start={points: [{lr: 2e-2, alpha: L}, {lr: 5e-3}], from: bowl, best: 1}",
        "search.points=4",
    )
    first, second, third, _ = bench.points("second")
    assert first.values["schedule.lr"] == 0.02
    assert first.trials[0].trial.options["alpha"] == 8.0
    assert second.values["schedule.lr"] == 0.005
    assert third.trials[0].trial.id == best.trials[0].trial.id


def test_cells_of_the_grid_are_searched_apart_or_jointly(bench) -> None:
    grid = "grid={architecture: [bowl, plain], depth: {blocks: [4]}}"
    bench.run(grid, "name=apart", "search.points=5", "search.remeasure.best=1")
    apart = bench.points("apart")
    assert {point.cell_name for point in apart} == {"bowl 4 blocks", "plain 4 blocks"}
    assert all(("alpha" in point.drawn) == (point.cell == 0) for point in apart)
    assert {point.cell for point in bench.points("apart", fresh=True)} == {0, 1}
    bench.run(grid, "search.per=all", "search.points=16", "search.remeasure.best=0")
    jointly = bench.points()
    assert {point.drawn["architecture"] for point in jointly} == {"bowl", "plain"}
    assert all(("alpha" in point.drawn) == (point.drawn["architecture"] == "bowl") for point in jointly)


def test_an_objective_that_trials_do_not_report_ends_the_search_with_one_error(bench) -> None:
    from keel_lab.errors import UsageError

    with pytest.raises(UsageError, match=r"found extra; the trials report no such metric.*reported val_loss"):
        bench.run("search.objectives={extra: minimize}")


def test_a_stored_search_is_read_back_with_its_trials(bench) -> None:
    bench.run()
    stored = Sweeps(bench.root).load("bowl")
    assert len(stored.trials) == 12 + 4
    assert all(Trials(bench.root).result(planned.trial.id) for planned in stored.trials)
    assert stored.revision == 1


def test_a_damaged_point_is_asked_again(bench, caplog) -> None:
    bench.run()
    before = asked(bench.points())
    path = bench.folder / "store" / "sweeps" / "bowl" / "points" / "000-00007.json"
    path.write_text(path.read_text()[:50])
    assert len(bench.points()) == 7
    assert "000-00007.json is damaged" in caplog.text
    assert bench.run().exit_code == 0
    assert asked(bench.points()) == before


def test_optuna_storage_mirrors_the_search(bench, monkeypatch) -> None:
    monkeypatch.delenv("KEEL_LAB_OPTUNA")
    bench.run()
    study = optuna.load_study(study_name="bowl: bowl 4 blocks", storage=f"sqlite:///{bench.folder}/store/optuna.db")
    points = bench.points()
    assert [trial.params for trial in study.trials] == [dict(point.drawn) for point in points]
    assert [trial.state.name.lower() for trial in study.trials] == [str(point.state) for point in points]
    assert study.best_trial.values == list(min(point.told for point in points if point.told))


def test_a_mirror_that_is_away_costs_nothing_and_is_made_up_later(bench, monkeypatch, capsys) -> None:
    journal = bench.folder / "away" / "journal.log"
    monkeypatch.setenv("KEEL_LAB_OPTUNA", f"journal:{journal}")
    assert bench.run().exit_code == 0
    said = capsys.readouterr().err
    assert f"the Optuna storage at {journal} is not up to date: no such file or directory" in said
    assert said.count("cannot be written: no such file or directory") == 1
    assert said.count("the Optuna storage") == 2
    journal.parent.mkdir()
    bench.run("search.points=13")
    assert f"optuna-dashboard {journal}" in capsys.readouterr().err
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    assert len(optuna.load_study(study_name="bowl: bowl 4 blocks", storage=storage).trials) == 13


def test_the_report_says_what_was_found_and_what_fresh_seeds_give(bench) -> None:
    import analysis.report

    bench.run("search.points=20")
    text = analysis.report.build("bowl", bench.root)
    assert "Best points for val_loss (minimize): bowl, bowl 4 blocks" in text
    assert "measured again [90% interval]" in text
    assert " L (L^" in text
    assert "20 of 20 points asked, sampler auto (seed 0)" in text
    content = json.loads(analysis.report.build("bowl", bench.root, "json"))
    rows = content["tables"][0]["cells"]
    assert len(rows) == 20
    best = next(row for row in rows if row["best"] == 1)
    assert best["val_loss.again_n"] == 2
    assert best["val_loss.again_low"] < best["val_loss.again"] < best["val_loss.again_high"]
    files = analysis.report.figures(["bowl"], bench.root, bench.folder / "drawn")
    assert [file.name for file in files] == ["search-bowl.png", "search-bowl.svg"]


def test_mlflow_has_the_report_the_figure_and_the_best_as_found_and_measured_again(bench) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{bench.folder}/mlflow.db"
    bench.run(tracking=uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("bowl")
    (summary,) = client.search_runs([experiment.experiment_id], "tags.kind = 'summary'")
    names = {item.path for item in client.list_artifacts(summary.info.run_id)}
    assert {"report.md", "search-bowl.png", "search-bowl.svg"} <= names
    best = min((point for point in bench.points() if point.told), key=lambda point: point.told)
    fresh = next(point for point in bench.points(fresh=True) if point.number == best.number)
    assert summary.data.metrics["points"] == 12
    assert summary.data.metrics["best_as_found/val_loss"] == pytest.approx(best.told[0])
    assert summary.data.metrics["best_measured_again/val_loss"] == pytest.approx(fresh.told[0])


def test_a_list_of_objectives_may_say_more_of_one(tmp_path):
    given = "search.objectives=[max_lr, {tokens_to_loss: {target: 2.5}}, {extra: maximize}]"
    search = Bench(tmp_path).open(given).spec.search
    found = [(one.name, one.direction, one.target) for one in search.objectives]
    assert found == [("max_lr", "maximize", None), ("tokens_to_loss", "minimize", 2.5), ("extra", "maximize", None)]
