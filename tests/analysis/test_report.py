"""The report in each format, from sweeps in a real store."""

from __future__ import annotations

import io
import json
import re

import pandas as pd
import pytest

from analysis.report import build, figures
from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import DETECTOR, Status, Verdict
from keel_lab.errors import UsageError
from keel_lab.settings import GridSchedule, RampSchedule


def small_table(lab, name="small", seeds=1, host="a"):
    """Onsets 100 steps apart are a factor of ten apart: the ramp rises 0.01 decades a step."""
    for architecture, onset in (("post_ln", 102), ("pre_ln", 202), ("keel", None)):
        for seed in range(seeds):
            planned = lab.plan(name, architecture, 16, seed)
            lab.finish(planned, lab.healthy(planned) if onset is None else lab.diverged(planned, onset), host=host)
    lab.save(name)


def table_lines(text):
    """The lines from the group heading to the blank before the notes, trailing blanks cut."""
    return text.split("\n\n")[1].splitlines()


def test_table_1_one_seed_one_depth(lab):
    small_table(lab)
    text = build(["small"], lab.root)
    assert (
        text
        == f"""\
Max LR by architecture and depth (log ramp 1e-4 to 0.1 in 301 steps): small

              16 blocks (32 sub-layers)
architecture  Max LR            mode      ratio
------------  ----------------  --------  ------
post_ln       1.00e-3           collapse  0.100
pre_ln        1.00e-2           collapse  1.00
keel          > 0.1 (censored)  -         > 10.0

- Max LR: the LR at the last step before the onset of divergence; strict, that is any of the modes non_finite, collapse,
  irrecoverable and stagnation counts. A run that did not diverge by the peak is censored.
- Verdicts by detector {DETECTOR}.
- Ramp: log ramp 1e-4 to 0.1 in 301 steps, 0.01 decades a step (a factor of 1.0233). Max LR depends on shape and slope:
  compare readings at equal slope only.
- n = 1: one seed a cell, hence no interval.
- ratio: Max LR over that of pre_ln in the same sweep, at the same depth and settings; > or < where one of the two is
  censored, - where both are.
- Depth: a block is attention and feed-forward, two sub-layers. Width 32, 8 sequences of 32 tokens a step, fp32.
"""
    )


def test_table_1_seeds_depths_and_every_way_to_lack_a_reading(lab):
    lab.seeds("t", "post_ln", 16, [102, 112, 122])
    lab.seeds("t", "post_ln", 32, ["stagnant", "stagnant", "stagnant"])
    lab.seeds("t", "pre_ln", 16, [202, 212, None])
    lab.seeds("t", "pre_ln", 32, [202, "failed", "not_run"])
    lab.seeds("t", "keel", 16, [None, None, None], options={"alpha": 32.0})
    lab.seeds("t", "keel", 32, [212, "stagnant", None], options={"alpha": 64.0})
    lab.save("t")
    text = build(["t"], lab.root)
    assert text.startswith("t: 16 of 18 trials finished, 1 failed; `keel-lab resume t` runs the rest.\n\n")
    body = text.partition("\n\n")[2]
    first, second = (part.splitlines() for part in body.split("\n\n")[1:3])
    assert first[0].strip() == "16 blocks (32 sub-layers)"
    headings = ["architecture", "Max LR [90% interval]", "range", "n", "mode", "ratio [90% interval]"]
    assert re.split(r"\s{2,}", first[1]) == headings
    assert re.split(r"\s{2,}", second[1]) == [*headings, "paper's ratio"]
    assert [re.split(r"\s{2,}", line) for line in first[3:]] == [
        ["post_ln", "1.26e-3 [8.24e-4, 1.92e-3]", "1.00e-3 .. 1.58e-3", "3", "collapse 3", "0.100 [< 0.0158, 0.217]"],
        ["pre_ln", "1.26e-2 [3.80e-3, > 0.1]", "1.00e-2 .. > 0.1", "3", "collapse 2", "1.00"],
        ["keel", "> 0.1 (censored)", "all > 0.1", "3", "-", "> 7.94 (no interval)"],
    ]
    # one measured, one censored: the survival stays at 1/2, so the median is above the middle of 1.26e-2 and 0.1
    assert [re.split(r"\s{2,}", line) for line in second[3:]] == [
        ["post_ln", "not learned at this slope", "-", "0 of 3", "stagnation 3", "-", "0.0392"],
        ["pre_ln", "1.00e-2 (no interval)", "one seed", "1 of 3", "collapse 1", "1.00", "1.00"],
        [
            "keel",
            "> 3.55e-2 [2.51e-5, > 0.1]",
            "1.26e-2 .. > 0.1",
            "2 of 3",
            "collapse 1, stagnation 1",
            "1.26 (no interval, 1 pair)",
            "1.32",
        ],
    ]
    notes = " ".join(text.split())
    assert "- post_ln 32 blocks: of 3 seeds, 3 not learned at this slope." in notes
    assert "- pre_ln 32 blocks: of 3 seeds, 1 failed (oom), 1 not run." in notes
    assert "a bootstrap over data seeds, widened where they are fewer than 5;" in notes
    assert "covers the true median 50% (n = 2), 75% (n = 3) of the time. A single data seed gives no interval." in notes
    assert "Fewer than 5 seeds, all of them censored, give none." in notes
    assert "at equal seeds: the median over n pairs, or as many as are said, with its 90% interval" in notes
    assert "arXiv 2601.19895v1, whose depths 64 and 512 are sub-layers" in notes


def test_seeds_that_share_their_data_count_once_for_the_interval(lab):
    for init_seed, onset in enumerate((202, 212, 222)):
        planned = lab.plan("t", "pre_ln", 16, init_seed, data_seed=0)
        lab.finish(planned, lab.diverged(planned, onset))
    lab.save("t")
    text = build(["t"], lab.root)
    assert re.search(r"pre_ln +1.26e-2 \(no interval\) +1.00e-2 .. 1.58e-2 +3 +collapse 3", text)
    assert "- One data seed a cell, hence no interval." in text
    (cell,) = json.loads(build(["t"], lab.root, "json"))["tables"][0]["cells"]
    assert (cell["n"], cell["clusters"], cell["interval_low"], cell["range_coverage"]) == (3, 1, None, None)


def test_markdown_is_one_table_with_the_depth_in_every_heading(lab):
    small_table(lab)
    lines = build(["small"], lab.root, "md").splitlines()
    assert lines[:6] == [
        "**Max LR by architecture and depth (log ramp 1e-4 to 0.1 in 301 steps): small**",
        "",
        "| architecture | 16 blocks: Max LR | 16 blocks: mode | 16 blocks: ratio |",
        "| --- | --- | --- | --- |",
        "| post_ln | 1.00e-3 | collapse | 0.100 |",
        "| pre_ln | 1.00e-2 | collapse | 1.00 |",
    ]


def test_csv_reads_back_with_pandas(lab):
    lab.seeds("t", "pre_ln", 32, [202, 202, "failed"])
    lab.seeds("t", "keel", 32, [None, None, "stagnant"], options={"alpha": 1.0}, axes=(("alpha", 1),))
    lab.seeds("t", "keel", 32, [212, 222, 232], options={"alpha": 64.0}, axes=(("alpha", "L"),))
    lab.save("t")
    frame = pd.read_csv(io.StringIO(build(["t"], lab.root, "csv")))
    assert list(frame.architecture) == ["pre_ln", "keel", "keel"]
    assert list(frame["axes"].fillna("")) == ["", "alpha=1", "alpha=L"]
    assert list(frame.blocks) == [32, 32, 32]
    assert list(frame.sublayers) == [64, 64, 64]
    assert list(frame.kind) == ["measured", "censored", "measured"]
    assert list(frame.n) == [2, 2, 3]
    assert list(frame.n_planned) == [3, 3, 3]
    assert list(frame.not_learned) == [0, 1, 0]
    assert list(frame.failed) == [1, 0, 0]
    assert list(frame.max_lr_median) == pytest.approx([1e-2, 0.1, 10**-1.8])
    assert list(frame.low) == pytest.approx([1e-2, 0.1, 10**-1.9])
    assert list(frame.high) == pytest.approx([1e-2, 0.1, 10**-1.7])
    assert list(frame.high_is_bound) == [False, True, False]
    assert list(frame.range_coverage) == [0.5, 0.5, 0.75]
    assert frame.interval_low[2] == pytest.approx(10**-1.984)  # 0.42 of the width of 0.2 decades below 10^-1.9
    assert frame.interval_high[2] == pytest.approx(10**-1.616)
    assert pd.isna(frame.interval_low[1])  # two seeds, both censored
    assert list(frame.interval_level.dropna()) == [0.9, 0.9]
    assert list(frame.ratio_to_pre_ln) == pytest.approx([1.0, 10.0, 10**0.15])  # at the two seeds that Pre-LN has
    assert list(frame.ratio_pairs[1:]) == [2, 2]
    assert frame.ratio_low[2] == pytest.approx(10**-0.2)
    assert frame.ratio_high[2] == pytest.approx(10**0.5)
    assert list(frame.ratio_kind) == ["exact", "above", "exact"]
    assert frame.paper_ratio[0] == 1.0
    assert pd.isna(frame.paper_ratio[1])  # Keel with alpha = 1 is not the paper's Keel
    assert frame.paper_ratio[2] == pytest.approx(1.01e-2 / 7.65e-3)
    assert list(frame["slope"].round(6)) == [0.01] * 3
    assert set(frame["shape"]) == {"log"}
    assert list(frame.modes.fillna("")) == ["collapse=2", "stagnation=1", "collapse=3"]


def test_json_holds_every_seeds_reading(lab):
    lab.seeds("t", "pre_ln", 16, [202, None, "not_run"])
    lab.save("t")
    content = json.loads(build(["t"], lab.root, "json"))
    (table,) = content["tables"]
    assert table["ramp"] == {"shape": "log", "from_lr": 1e-4, "peak_lr": 0.1, "steps": 301}
    (cell,) = table["cells"]
    assert [one["kind"] for one in cell["readings"]] == ["measured", "censored", None]
    assert [one["onset_step"] for one in cell["readings"]] == [202, None, None]
    assert [one["state"] for one in cell["readings"]] == ["diverged", "completed", "not_run"]
    assert cell["readings"][0]["max_lr"] == pytest.approx(1e-2)
    assert content["thresholds"]["t"] == Thresholds().model_dump(mode="json")


@pytest.mark.parametrize("form", ["text", "md", "csv", "json"])
def test_identical_runs_give_identical_bytes(lab, tmp_path, form):
    small_table(lab, seeds=3)
    other = type(lab)(type(lab.root).open(tmp_path / "elsewhere"))
    small_table(other, seeds=3, host="another host")
    assert build(["small"], lab.root, form) == build(["small"], str(tmp_path / "elsewhere"), form)


def test_other_slopes_stand_in_other_tables(lab):
    slow = RampSchedule(shape="linear", from_lr=0, peak_lr=5e-2, steps=5000)
    small_table(lab, "fast")
    lab.seeds("slow", "pre_ln", 16, [766], schedule=slow)
    lab.save("slow")
    text = build(["fast", "slow"], lab.root)
    assert text.count("Max LR by architecture and depth") == 2
    assert "Max LR by architecture and depth (linear ramp 0 to 0.05 in 5000 steps): slow" in text
    assert "linear ramp 0 to 0.05 in 5000 steps, 1e-05 LR a step" in " ".join(text.split())
    assert "7.65e-3" in text
    rows = pd.read_csv(io.StringIO(build(["fast", "slow"], lab.root, "csv")))
    assert list(rows.slope_unit) == ["decades/step"] * 3 + ["LR/step"]


def test_sweeps_of_one_ramp_share_a_table_but_not_their_reference(lab):
    small_table(lab, "one")
    lab.seeds("two", "keel", 16, [252])
    lab.save("two")
    lines = table_lines(build(["one", "two"], lab.root))
    assert [line.split()[:2] for line in lines[3:]] == [
        ["one", "post_ln"], ["one", "pre_ln"], ["one", "keel"], ["two", "keel"],
    ]  # fmt: skip
    assert lines[-1].split()[-1] == "-"


def test_axes_name_rows_only_where_they_tell_cells_apart(lab):
    for steps in (301, 601):
        ramp = RampSchedule(shape="log", from_lr=1e-4, peak_lr=0.1, steps=steps)
        axes = (("ramp.steps", steps), ("clip_norm", 1.0))
        lab.seeds("t", "pre_ln", 16, [202], schedule=ramp, axes=axes)
        lab.seeds("t", "keel", 16, [212], schedule=ramp, axes=(*axes, ("alpha", "L^0.25")))
    lab.save("t")
    text = build(["t"], lab.root)
    assert text.count("Max LR by architecture and depth") == 2
    assert "alpha=L^0.25" in text
    assert "ramp.steps=" not in text
    assert "clip_norm=" not in text
    assert json.loads(build(["t"], lab.root, "json"))["tables"][0]["cells"][0]["axes"]["ramp.steps"] == 301


def test_a_sweep_with_nothing_finished_says_so(lab):
    lab.seeds("new", "pre_ln", 16, ["not_run", "failed"])
    lab.save("new")
    text = build(["new"], lab.root)
    assert text.startswith("new: none of 2 trials finished, 1 failed; `keel-lab resume new` runs the rest.")
    assert re.search(r"pre_ln +failed +- +0 of 2", text)
    assert pd.read_csv(io.StringIO(build(["new"], lab.root, "csv"))).kind[0] == "failed"
    assert json.loads(build(["new"], lab.root, "json"))["tables"][0]["cells"][0]["max_lr_median"] is None


def test_unknown_sweeps_and_formats_are_refused(lab, tmp_path):
    small_table(lab)
    with pytest.raises(UsageError, match="small"):
        build(["smal"], lab.root)
    with pytest.raises(UsageError, match="text, md, csv, json, tex"):
        build(["small"], lab.root, "pdf")
    with pytest.raises(UsageError):
        figures(["nothing"], lab.root, tmp_path)


def test_changed_thresholds_are_said(lab):
    changed = Thresholds(confirm_samples=50)
    planned = lab.plan("t", "pre_ln")
    lab.finish(planned, lab.diverged(planned, 202), thresholds=changed)
    lab.save("t", changed)
    text = build(["t"], lab.root)
    assert "t was judged with confirm_samples=50; other thresholds are the defaults." in text


GRID = GridSchedule(lr=1e-3, steps=600, warmup_steps=60)


def small_grid(lab):
    for lr in (1e-5, 3e-5):
        for seed in range(3):
            schedule = GRID.model_copy(update={"lr": lr})
            planned = lab.plan("g", "keel", 16, seed, schedule=schedule, axes=(("lr", lr),))
            if lr == 3e-5 and seed < 2:
                lab.finish(planned, lab.diverged(planned, 60), metrics={"val_loss": 9.0})
            elif lr == 1e-5 and seed == 2:
                lab.fail(planned)
            else:
                lab.finish(planned, Verdict(Status.HEALTHY, censored=True), metrics={"val_loss": 2.0 + seed})
    lab.save("g")


def test_ramp_and_grid_do_not_share_a_csv(lab):
    small_grid(lab)
    small_table(lab)
    text = build(["g", "small"], lab.root)
    assert "Final metrics by architecture" in text
    assert "Max LR by architecture" in text
    with pytest.raises(UsageError, match="reports of their own"):
        build(["g", "small"], lab.root, "csv")
