"""Alpha tables: ramp, grid and probe joined by model, alpha in units of L, the best alpha and how it moves."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from analysis.alpha import build, figure, main
from analysis.alpha_moves import moves, tilt
from analysis.branch_strength import lines
from analysis.readings import read
from keel_lab import gradient_flow as names
from keel_lab.errors import UsageError
from keel_lab.gradient_flow import MEASURES, Flow, Moment
from keel_lab.settings import GridSchedule
from keel_lab.store import flows

RULES = {"1": 1.0, "L": 16.0, "L^2": 256.0}


def keel(lab, sweep, label, seed=0, *, inner=True, lr=None, model=None):
    """A trial at 8 blocks: a ramp, or a grid's at `lr`."""
    axes = (("alpha", label), ("inner_norm", inner), *(((("lr", lr)),) if lr else ()), *(model or {}).items())
    planned = lab.plan(
        sweep,
        "keel",
        8,
        seed,
        axes=axes,
        options={"alpha": RULES[label], "inner_norm": inner},
        schedule=GridSchedule(lr=lr, steps=320, warmup_steps=32) if lr else None,
    )
    if model is None:
        return planned
    trial = planned.trial.model_copy(update={"model": planned.trial.model.model_copy(update=model)})
    changed = type(planned)(trial, planned.cell, planned.labels, planned.parameters)
    lab.planned[sweep][-1] = changed
    return changed


def ended(lab, planned, loss):
    lab.finish(planned, lab.healthy(planned), metrics={"val_loss": loss})


def grid(lab, losses, sweep="g", **more):
    """Losses by alpha and LR, a value a seed; None for a seed that diverged."""
    for label, by_lr in losses.items():
        for lr, values in by_lr.items():
            for seed, value in enumerate(values):
                planned = keel(lab, sweep, label, seed, lr=lr, **more)
                if value is None:
                    lab.finish(planned, lab.diverged(planned, 60), metrics={"val_loss": 9.0})
                else:
                    ended(lab, planned, value)


def flow(trial_id, branch, skip, steps):
    values = {name: [math.nan] * 3 for name in MEASURES}
    values[names.BRANCH_RMS], values[names.SKIP_RMS] = [branch, branch, 100.0], [skip] * 3
    return Flow(trial_id, (True,) * 3, (), tuple(Moment(step, 2.0, values) for step in steps))


def test_ramp_grid_and_probe_share_a_row(lab):
    for seed, onset in enumerate((200, 210, 220)):
        planned = keel(lab, "r", "L", seed)
        lab.finish(planned, lab.diverged(planned, onset))
    lab.save("r")
    grid(lab, {"L": {1e-3: (2.5, 2.6), 1e-2: (2.3, 2.4), 3e-2: (2.4, None)}})
    lab.save("g")
    best = next(one for one in lab.planned["g"] if one.trial.schedule.lr == 1e-2)
    flows.save(lab.root, flow(best.trial.id, 0.5, 16.0, (0, 320)))
    (line,) = lines(read(["r", "g"], lab.root), lambda trial_id: flows.load(lab.root, trial_id))
    (row,) = line.rows
    assert (row.units, row.label, row.best.lr, row.edge) == (1.0, "L", 1e-2, "")
    assert row.max_lr.n == 3
    text = " ".join(build(["r", "g"], lab.root).split())
    assert "keel L 1.00" in text
    assert "1.00e-2 2.350 [2.034, 2.666] (n = 2) (1 diverged at 3.00e-2) 0" in text
    assert "0.0312 0.0312" in text  # 0.5 / 16, the median over sub-layers, at init and at the end


def test_an_lr_at_which_a_seed_diverged_is_not_the_best_and_an_edge_is_a_bound(lab):
    grid(lab, {"1": {1e-3: (2.5, 2.5), 1e-2: (2.0, None)}, "L": {1e-3: (2.5, 2.5), 1e-2: (2.0, 2.1)}})
    lab.save("g")
    (line,) = lines(read(["g"], lab.root))
    assert [(row.edge, row.best.lr) for row in line.rows] == [("<= ", 1e-3), (">= ", 1e-2)]


def test_an_alpha_that_diverged_at_every_lr_is_neither_best_nor_alike(lab):
    grid(lab, {"1": {1e-2: (2.0, None)}, "L": {1e-2: (2.0, 2.1)}, "L^2": {1e-2: (2.1, 2.1)}})
    lab.save("g")
    (line,) = lines(read(["g"], lab.root))
    assert [row.label for row in line.alike()] == ["L", "L^2"]
    text = " ".join(build(["g"], lab.root).split())
    assert "1 0.0625 - (1 diverged at 1.00e-2) -" in text
    assert "One peak LR, 0.01: nothing says that each alpha is best at it." in text


def test_differences_are_paired_by_seed_and_tell_alphas_apart(lab):
    grid(lab, {"1": {1e-2: (2.5, 2.9, 2.7)}, "L": {1e-2: (2.0, 2.4, 2.2)}, "L^2": {1e-2: (2.0, 2.5, 2.1)}})
    lab.save("g")
    (line,) = lines(read(["g"], lab.root))
    assert [row.label for row in line.rows] == ["1", "L", "L^2"]
    assert line.best.label == "L"
    assert [row.label for row in line.alike()] == ["L", "L^2"]
    assert [row.label for row in line.of_seeds().values()] == ["L", "L", "L^2"]
    text = build(["g"], lab.root, "md")
    assert "| keel | 1 | 0.0625 | 1.00e-2 | 2.700 [2.363, 3.037] (n = 3) | +0.500 [+0.500, +0.500] |" in text
    assert "| keel | L | 1.00 | 2.200 [1.863, 2.537] (n = 3) | L^2 | L, L, L^2 |" in text


def test_the_control_has_one_over_c_as_its_alpha(lab):
    schedule = GridSchedule(lr=1e-2, steps=320, warmup_steps=32)
    for label, c in (("1/L", 1 / 16), ("1", 1.0)):
        planned = lab.plan("g", "pre_ln_scaled", 8, axes=(("c", label),), options={"c": c}, schedule=schedule)
        ended(lab, planned, 2.0)
    lab.save("g")
    (line,) = lines(read(["g"], lab.root))
    assert [(row.label, row.units) for row in line.rows] == [("1", 1 / 16), ("1/L", 1.0)]
    assert "c = 1/L" in build(["g"], lab.root)


def test_how_the_best_alpha_moves_with_width(lab):
    narrow = {"1": {1e-2: (2.0, 2.1)}, "L": {1e-2: (2.2, 2.0)}, "L^2": {1e-2: (2.4, 2.4)}}
    wide = {"1": {1e-2: (2.0, 2.1)}, "L": {1e-2: (1.9, 2.0)}, "L^2": {1e-2: (1.8, 1.9)}}
    grid(lab, narrow, model={"width": 16})
    grid(lab, wide, model={"width": 64})
    lab.save("g")
    found = lines(read(["g"], lab.root))
    (move,) = moves(found)
    assert (move.axis, move.first, move.second) == ("width", 16, 64)
    assert move.factors == (256.0, 16.0)
    assert (move.grows, move.falls) == (2, 0)
    assert tilt(found[0], (0, 0)) == pytest.approx(0.4 / 8)  # from log2 alpha 0 to 8
    assert tilt(found[0], (1, 1), least=16.0) == pytest.approx(0.4 / 4)
    assert move.tilts == pytest.approx((-0.2 / 8 - 0.4 / 8, -0.1 / 4 - 0.4 / 4))  # from alpha 1, from L
    text = " ".join(build(["g"], lab.root).split())
    assert "width 16 64 2 2 0 0 136" in text
    assert "width=64 >= L^2 16.0" in text


def test_lines_that_differ_in_two_axes_are_no_pair(lab):
    grid(lab, {"1": {1e-2: (2.0,)}, "L": {1e-2: (2.2,)}}, model={"width": 16})
    grid(lab, {"1": {1e-2: (2.0,)}, "L": {1e-2: (2.2,)}}, model={"width": 64}, inner=False)
    lab.save("g")
    assert moves(lines(read(["g"], lab.root))) == []


def test_records_hold_what_the_table_says(lab):
    grid(lab, {"1": {1e-2: (2.5, 2.9)}, "L": {1e-2: (2.0, 2.4)}})
    lab.save("g")
    first, second = json.loads(build(["g"], lab.root, "json"))["rows"]
    assert (first["alpha_in_units_of_L"], first["loss"], first["above_alpha_L"]) == (1 / 16, 2.7, pytest.approx(0.5))
    assert (second["lowest_of_its_line"], second["above_alpha_L"], second["max_lr_median"]) == (True, None, None)
    table = list(csv.DictReader(io.StringIO(build(["g"], lab.root, "csv"))))
    assert [row["label"] for row in table] == ["1", "L"]
    assert table[0]["axes"] == "inner_norm=True"


def test_the_figure_has_a_panel_for_what_there_is(lab, tmp_path):
    grid(lab, {"1": {1e-2: (2.5, 2.9)}, "L": {1e-2: (2.0, 2.4)}})
    planned = keel(lab, "r", "L")
    lab.finish(planned, lab.diverged(planned, 200))
    lab.save("g")
    lab.save("r")
    one = figure(["g"], lab.root, tmp_path / "one.png").read_bytes()
    two = figure(["r", "g"], lab.root, tmp_path / "two.png").read_bytes()
    assert one[:8] == two[:8] == b"\x89PNG\r\n\x1a\n"
    width = [int.from_bytes(image[16:20]) for image in (one, two)]
    assert width[1] > width[0]
    assert figure(["g"], lab.root, tmp_path / "again.png").read_bytes() == one


def test_what_has_no_alpha_is_refused(lab, capsys):
    ended(lab, lab.plan("p", "pre_ln", 8, schedule=GridSchedule(lr=1e-2, steps=320, warmup_steps=32)), 2.0)
    lab.save("p")
    with pytest.raises(UsageError, match="pre_ln in p has no alpha; give sweeps of architectures that have an option"):
        build(["p"], lab.root)
    assert main(["p", "--storage", str(lab.root)]) == 2
    assert "pre_ln in p has no alpha" in capsys.readouterr().err


def test_two_schedules_are_not_mixed(lab):
    ended(lab, keel(lab, "g", "L", lr=1e-2), 2.0)
    planned = lab.plan(
        "h",
        "keel",
        8,
        1,
        axes=(("alpha", "L"), ("inner_norm", True)),
        options={"alpha": 16.0, "inner_norm": True},
        schedule=GridSchedule(lr=1e-2, steps=640, warmup_steps=32),
    )
    ended(lab, planned, 2.0)
    lab.save("g")
    lab.save("h")
    with pytest.raises(UsageError, match="g, h: GridSchedules that differ in more than the LR"):
        build(["g", "h"], lab.root)


def test_a_format_that_there_is_not(lab):
    with pytest.raises(UsageError, match="format 'tex' is not known; formats are text, md, csv, json"):
        build(["g"], lab.root, "tex")
