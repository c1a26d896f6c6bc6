"""Grid sweeps in Table 2's form: what each cell says, families and averages, the best LR, the response to it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.report import build, figures
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.settings import GridSchedule

GRID = GridSchedule(lr=1e-3, steps=600, warmup_steps=60)
PAPER = Path(__file__).parents[1] / "data" / "paper_table2.csv"  # arXiv 2601.19895v1, Table 2


def finish(lab, name, architecture, lr, metrics, *, blocks=16, seed=0, data_seed=None, lost=False, axes=()):
    schedule = GRID.model_copy(update={"lr": lr})
    axes = (("lr", lr), *axes)
    options = {key: float(value) for key, value in axes[1:]}
    planned = lab.plan(
        name, architecture, blocks, seed, data_seed=data_seed, schedule=schedule, axes=axes, options=options
    )
    if metrics is not None:
        lab.finish(planned, lab.diverged(planned, 60) if lost else lab.healthy(planned), metrics=metrics)
    return planned


def body(text):
    """The cells of each line of the table, its headings first."""
    lines = text.partition("\n\n")[2].split("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def losses(lab, architecture, by_lr, name="g"):
    """One seed a loss; None for a seed that diverged."""
    for lr, found in by_lr.items():
        for seed, loss in enumerate(found):
            metrics = {"val_loss": 9.0 if loss is None else loss}
            finish(lab, name, architecture, lr, metrics, seed=seed, lost=loss is None)


def test_means_intervals_divergence_and_what_is_missing(lab):
    losses(lab, "keel", {1e-5: [2.5, 2.5], 3e-5: [None, None, 4.0], 1e-4: [2.2, 2.3, 2.4]})
    lab.fail(finish(lab, "g", "keel", 1e-5, None, seed=2))
    lab.save("g")
    text = build(["g"], lab.root)
    assert text.startswith("g: 8 of 9 trials finished, 1 failed;")
    table = text.partition("\n\n")[2]
    assert table.startswith("Final metrics by architecture and peak LR, 16 blocks (32 sub-layers): g\n")
    rows = body(table)
    assert rows[0] == ["keel"]
    assert rows[1] == ["metric", "1e-5", "3e-5", "1e-4", "with LR"]
    # Student's t with 2 degrees of freedom: 2.92 * 0.1 / sqrt(3) = 0.1686
    assert rows[3] == [
        "validation loss", "2.5000 [2.5000, 2.5000] (n=2), 1 failed (oom)", "4.0000 (n=1), diverged 2/3",
        "2.3000 [2.1314, 2.4686] *", "-",
    ]  # fmt: skip
    assert rows[4][0] == "perplexity"
    assert rows[4][3] == "9.974 [8.427, 11.81] *"  # exp of the loss and of its interval
    notes = " ".join(text.split())
    assert "n = 3 where a cell does not say otherwise" in notes
    assert "Where some seeds diverged, it is a mean of the survivors, which flatters." in notes


def test_one_seed_has_no_interval_and_says_so(lab):
    losses(lab, "keel", {1e-5: [2.5], 3e-5: [2.4]})
    lab.save("g")
    text = build(["g"], lab.root)
    assert body(text)[3] == ["validation loss", "2.5000", "2.4000 *", "improves"]
    assert "one seed a cell, hence no interval" in " ".join(text.split())


def test_seeds_that_share_their_data_are_one_repeat(lab):
    for seed, loss in enumerate((2.0, 2.2)):
        finish(lab, "g", "keel", 1e-3, {"val_loss": loss}, seed=seed, data_seed=7)
    lab.save("g")
    text = build(["g"], lab.root)
    assert body(text)[3] == ["validation loss", "2.1000"]
    assert "one data seed a cell, hence no interval" in " ".join(text.split())


@pytest.mark.parametrize(
    ("by_lr", "best", "said"),
    [
        ({1e-3: [3.0], 1e-2: [2.0], 1e-1: [1.0]}, 1e-1, "improves"),
        ({1e-3: [1.0], 1e-2: [2.0], 1e-1: [None]}, 1e-3, "worsens"),
        ({1e-3: [1.0], 1e-2: [None], 1e-1: [None]}, 1e-3, "worsens"),
        ({1e-3: [2.0], 1e-2: [1.0], 1e-1: [2.0]}, 1e-2, "not monotone"),
        ({1e-3: [2.0], 1e-2: [None], 1e-1: [1.0]}, 1e-1, "not monotone"),
        ({1e-3: [2.0], 1e-2: [1.0], 1e-1: [0.1, None]}, 1e-2, "not monotone"),  # survivors are no best
        ({1e-3: [None], 1e-2: [None]}, None, "-"),
        ({1e-3: [2.0, 2.1, 2.2], 1e-2: [1.9, 2.1, 2.2]}, 1e-2, "improves (within noise)"),
        ({1e-3: [2.0, 2.1, 2.2], 1e-2: [1.9, 2.0, 2.1]}, 1e-2, "improves"),  # each pair falls by the same
    ],
)
def test_best_lr_and_the_response_to_it(lab, by_lr, best, said):
    losses(lab, "keel", by_lr)
    lab.save("g")
    frame = pd.read_csv(io.StringIO(build(["g"], lab.root, "csv")))
    frame = frame[frame.metric == "val_loss"]
    assert list(frame[frame.best].lr) == ([] if best is None else [best])
    row = next(row for row in body(build(["g"], lab.root)) if row[0] == "validation loss")
    assert row[-1] == said
    assert [index for index, word in enumerate(row) if word.endswith("*")] == (
        [] if best is None else [1 + list(by_lr).index(best)]
    )


def test_what_is_not_run_leaves_the_response_open(lab):
    losses(lab, "keel", {1e-3: [2.0], 1e-2: [1.0]})
    finish(lab, "g", "keel", 1e-1, None)
    lab.save("g")
    assert body(build(["g"], lab.root).partition("\n\n")[2])[3][1:] == ["2.0000", "1.0000 *", "1 not run", "-"]


def test_the_papers_table_2_comes_out_as_printed(lab):
    with PAPER.open(encoding="utf-8") as stream:
        printed = list(csv.DictReader(stream))
    scores, average = printed[:-1], printed[-1]
    columns = [(name, lr) for name in ("pre_ln", "keel") for lr in ("1.5e-3", "3.0e-3", "6.0e-3")]
    for architecture, lr in columns:
        metrics = {f"{row['group']}/{row['benchmark']}": float(row[f"{architecture}_{lr}"]) for row in scores}
        finish(lab, "paper", architecture, float(lr), {"val_loss": 2.0, **metrics}, blocks=256)
    lab.save("paper")
    cells = json.loads(build(["paper"], lab.root, "json"))["tables"][0]["cells"]
    found = {(one["architecture"], one["lr"]): one for one in cells if one["metric"] == "average"}
    odd = [key for key in columns if round(found[key[0], float(key[1])]["mean"], 1) != float(average["_".join(key)])]
    assert odd == [("keel", "1.5e-3")]  # printed as 50.5, while the column's plain mean is 50.33
    assert {one["response"] for key, one in found.items() if key[0] == "keel"} == {"improves"}
    assert {one["response"] for key, one in found.items() if key[0] == "pre_ln"} == {"not monotone"}
    text = build(["paper"], lab.root)
    assert "mean of Reasoning & Coding" in text
    first = [row[0] for row in body(text) if row[0] not in ("metric", "pre_ln")]
    assert first[1:3] == ["validation loss", "perplexity"]
    assert first[-1] == "average"
    tex = build(["paper"], lab.root, "tex")
    assert r"\multicolumn{4}{c}{Pre-LN}" in tex
    assert r"mean of Reasoning \& Coding" in tex


def test_a_family_mean_stands_on_seeds_that_have_all_its_members(lab):
    finish(lab, "g", "keel", 1e-3, {"val_loss": 2.0, "arc/easy": 0.6, "arc/hard": 0.2}, seed=0)
    finish(lab, "g", "keel", 1e-3, {"val_loss": 2.0, "arc/easy": 0.8}, seed=1)
    finish(lab, "g", "keel", 1e-3, {"val_loss": 2.0, "arc/easy": 0.8, "arc/hard": float("nan")}, seed=2)
    lab.save("g")
    rows = {row[0]: row[1:] for row in body(build(["g"], lab.root))}
    assert rows["mean of arc"] == ["0.4000 (n=1), no finite mean of arc 2/3"]
    assert rows["arc/easy"][0].startswith("0.7333 [")
    assert "average" not in rows  # of one family it is the family's mean


def test_losses_in_a_family_do_not_enter_the_average(lab):
    finish(lab, "g", "keel", 1e-3, {"val_loss": 2.0, "arc/easy": 0.6, "wiki/loss": 3.0, "qa/piqa": 0.8})
    lab.save("g")
    rows = {row[0]: row[1:] for row in body(build(["g"], lab.root))}
    assert rows["average"] == ["0.7000"]
    assert rows["wiki/loss"] == ["3.0000"]


def test_without_a_finite_loss_the_cell_says_so(lab):
    planned = lab.plan("g", "keel", schedule=GRID)
    lab.finish(planned, Verdict(Status.HEALTHY, censored=True), metrics={"val_loss": float("nan")})
    lab.save("g")
    assert "no finite val_loss 1/1" in build(["g"], lab.root)
    assert json.loads(build(["g"], lab.root, "json"))["tables"][0]["cells"][0]["without_metric"] == 1


def test_depths_and_axes_are_rows_and_an_architecture_without_the_axis_stands_apart(lab):
    for blocks in (8, 16):
        finish(lab, "g", "pre_ln", 1e-3, {"val_loss": 2.0}, blocks=blocks)
        for alpha in (1, 2):
            finish(lab, "g", "keel", 1e-2, {"val_loss": 2.0 + alpha}, blocks=blocks, axes=(("alpha", alpha),))
    lab.save("g")
    text = build(["g"], lab.root, "md")
    assert "| depth | axes | metric | pre_ln: 0.001 | keel: 0.01 |" in text
    assert "| 8 blocks (16 sub-layers) | alpha=2 | validation loss | - | 4.0000 |" in text
    assert "| 16 blocks (32 sub-layers) |  | validation loss | 2.0000 | - |" in text


def test_the_loss_against_lr_is_drawn_a_line_an_architecture(lab, tmp_path):
    losses(lab, "keel", {1e-3: [3.0, 3.1], 1e-2: [2.0, 2.1]})
    losses(lab, "pre_ln", {1e-3: [3.0, 3.1], 1e-2: [None, 2.1]})
    lab.save("g")
    names = {path.name: path for path in figures(["g"], lab.root, tmp_path / "one")}
    assert {"lr-g.png", "lr-g.svg"} <= names.keys()
    again = {path.name: path for path in figures(["g"], lab.root, tmp_path / "two")}
    assert all(names[name].read_bytes() == again[name].read_bytes() for name in names)
    words = re.findall(r"<!-- (.*?) -->", names["lr-g.svg"].read_text())
    assert {"keel", "pre_ln", "1/2 diverged", "peak learning rate", "16 blocks (32 sub-layers)"} <= set(words)


def test_one_lr_draws_no_response(lab, tmp_path):
    losses(lab, "keel", {1e-3: [3.0]})
    lab.save("g")
    assert not [path for path in figures(["g"], lab.root, tmp_path) if path.name.startswith("lr-")]


def test_an_lr_each_is_no_grid_whose_edge_could_be_met(lab):
    for optimizer, lr in ((1.0, 1e-2), (2.0, 3e-2)):
        finish(lab, "g", "keel", lr, {"val_loss": 2.0 - lr}, axes=(("decay", optimizer),))
    lab.save("g")
    assert "extend the grid" not in build(["g"], lab.root)
