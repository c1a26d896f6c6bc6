"""Curves from CSV, JSONL and Parquet: columns, spellings, split logs, and one clear sentence for each thing wrong."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keel_lab.curve import Curve, Step
from keel_lab.errors import UsageError
from keel_lab.judge.columns import Columns
from keel_lab.judge.log import read_log
from keel_lab.judge.table import read_table

ROWS = [(10, 5.0, 1e-3), (20, 4.5, 2e-3), (30, 4.0, 3e-3)]


def log_of(path, **columns):
    return read_log(read_table(path, path.name), Columns(**columns))


def written(folder, text, name="log.csv"):
    path = folder / name
    path.write_text(text)
    return path


def triples(log):
    return [(step.step, step.loss, step.lr) for step in log.steps]


def test_the_three_kinds_of_file_say_the_same(tmp_path):
    csv = written(tmp_path, "step,loss,lr\n" + "".join(f"{s},{y},{lr}\n" for s, y, lr in ROWS))
    lines = "".join(json.dumps({"step": s, "loss": y, "lr": lr}) + "\n" for s, y, lr in ROWS)
    jsonl = written(tmp_path, lines, "log.jsonl")
    columns = zip(*ROWS, strict=True)
    pq.write_table(pa.table(dict(zip(("step", "loss", "lr"), columns, strict=True))), tmp_path / "log.parquet")
    for path in (csv, jsonl, tmp_path / "log.parquet"):
        assert triples(log_of(path)) == ROWS
    csv.rename(tmp_path / "no_suffix")  # the kind is told from the content
    assert triples(log_of(tmp_path / "no_suffix")) == ROWS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, math.nan) for text in ("nan", "NaN", "NAN", "-nan")),
        *((text, math.inf) for text in ("inf", "Infinity", "+Inf", "1.797e308")),
        *((text, -math.inf) for text in ("-inf", "-Infinity")),
    ],
)
def test_every_spelling_of_nan_and_inf_is_a_number(tmp_path, text, value):
    (_, step) = log_of(written(tmp_path, f"step,loss\n1,3.0\n2, {text} \n")).steps
    assert step.loss == value or (math.isnan(step.loss) and math.isnan(value))


def test_nan_in_jsonl_and_parquet(tmp_path):
    path = written(tmp_path, '{"step": 1, "loss": NaN}\n\n{"step": 2, "loss": -Infinity}\n{"step": 3, "loss": "inf"}\n')
    nan, low, high = (step.loss for step in log_of(path).steps)
    assert math.isnan(nan)
    assert (low, high) == (-math.inf, math.inf)
    pq.write_table(pa.table({"step": [1, 2, 3], "loss": [math.nan, None, 2.0]}), tmp_path / "log.parquet")
    log = log_of(tmp_path / "log.parquet")
    assert [step.step for step in log.steps] == [1, 3]
    assert math.isnan(log.steps[0].loss)
    assert log.facts["rows_without_loss"] == 1


def test_rows_without_a_loss_are_left_out_and_counted(tmp_path):
    log = log_of(written(tmp_path, "step,loss,val_loss\n1,3.0,\n1,,4.0\n2,2.9,\n3,NA,\n"))
    assert [step.step for step in log.steps] == [1, 2]
    assert (log.facts["rows_without_loss"], log.facts["last_row_without_loss"], log.facts["rows"]) == (2, 4, 4)


@pytest.mark.parametrize(
    ("names", "used"),
    [
        ("step,loss,lr", ["step", "loss", "lr"]),
        ("global_step,train_loss,learning_rate", ["global_step", "train_loss", "learning_rate"]),
        ("trainer/global_step,train/loss,train/learning_rate", None),
        ("Iteration,LM loss,Learning Rate", None),
        ("_step,train/lm-loss,LR", None),
    ],
)
def test_columns_are_found_by_the_names_that_trainers_use(tmp_path, names, used):
    log = log_of(written(tmp_path, f"{names}\n10,5.0,1e-3\n"))
    assert triples(log) == [(10, 5.0, 1e-3)]
    assert list(log.facts["columns"].values()) == sorted(used or names.split(","), key=names.split(",")[1].__ne__)


def test_given_columns_beat_found_ones(tmp_path):
    path = written(tmp_path, "step,it,loss,other\n1,7,3.0,9.0\n")
    assert triples(log_of(path, step="it", loss="other"))[0][:2] == (7, 9.0)


def test_an_exact_name_beats_an_alias(tmp_path):
    assert triples(log_of(written(tmp_path, "step,train_loss,loss\n1,9.0,3.0\n")))[0][1] == 3.0


def test_other_delimiters_a_byte_order_mark_and_blank_lines(tmp_path):
    assert triples(log_of(written(tmp_path, "\ufeffstep;loss\n1;3.0\n\n2;2.5\n")))[1][:2] == (2, 2.5)
    assert triples(log_of(written(tmp_path, "step\tloss\n1\t3.0\n")))[0][:2] == (1, 3.0)


def test_a_log_whose_step_goes_back_is_split_and_its_last_run_taken(tmp_path):
    log = log_of(written(tmp_path, "step,loss\n1,3\n2,2\n3,1\n1,9\n2,8\n"))
    assert triples(log)[0][:2] == (1, 9.0)
    assert (log.facts["runs"], log.facts["judged_run"], len(log.steps)) == (2, 2, 2)


def test_a_step_logged_again_replaces_the_one_before_but_hides_no_nan(tmp_path):
    log = log_of(written(tmp_path, "step,loss\n1,3\n2,2\n2,1.5\n3,nan\n3,1\n"))
    assert [step.loss for step in log.steps][:2] == [3.0, 1.5]
    assert math.isnan(log.steps[2].loss)
    assert (log.facts["runs"], log.facts["repeated_steps"]) == (1, 2)


def test_rows_are_numbered_where_there_is_no_step(tmp_path):
    log = log_of(written(tmp_path, "loss\n3\n2\n"))
    assert [step.step for step in log.steps] == [0, 1]
    assert "there is no step column" in log.facts["step_numbers"]


def test_the_curves_that_keel_lab_stores_are_read_with_what_only_they_hold(tmp_path):
    curve = Curve()
    for step in (Step(1, 3.0, 0.1, 3.1, 0.5), Step(2, 2.9, 0.1, 3.3, 0.5, skipped=True, weights_finite=False)):
        curve.append(step)
    (tmp_path / "curve.parquet").write_bytes(curve.to_parquet())
    log = log_of(tmp_path / "curve.parquet")
    assert [step._replace(tokens=0) for step in curve] == list(log.steps)
    assert log.unigram_entropy == pytest.approx(3.2)


def test_another_skipped_column_is_no_flag(tmp_path):
    assert not log_of(written(tmp_path, "step,loss,skipped\n1,3,0\n2,2,1\n")).steps[1].skipped


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("step,loss\n1,3\n2,abc\n", {}, "log.csv: line 3, column 'loss': found 'abc', which is no number"),
        ("step,loss\n1,3_0\n", {}, "found '3_0', which is no number"),
        ("step,loss\n1.5,3\n", {}, "line 2, column 'step': found 1.5, but a step is a whole number"),
        ("step,loss\nnan,3\n", {}, "found nan, but a step is a whole number"),
        ("step,loss\n,3\n", {}, "line 2: there is a loss but no 'step'"),
        ("step,loss,loss\n1,3,4\n", {}, "column 'loss' stands there 2 times; keep one of them"),
        ("step,Loss,LOSS\n1,3,4\n", {}, "columns Loss and LOSS could both be the loss; choose with --loss COLUMN"),
        (
            "step,val_loss,acc\n1,3,4\n",
            {},
            "there is no loss column .*; name it with --loss COLUMN; there are step, val",
        ),
        (
            "step,loss\n1,3\n",
            {"loss": "los"},
            "there is no column 'los' \\(did you mean loss\\?\\); there are step, loss",
        ),
        ("step,loss\n1,3\n", {"lr": "eta"}, "there is no column 'eta'"),
        ("step,loss,lr\n1,3,-1e-3\n", {}, "line 2, column 'lr': found -0.001, but no LR is below 0"),
        ("step,loss\n1,3,9\n", {}, "line 2: found 3 cells under a header of 2"),
        ("step,loss\n", {}, "there is no row with a 'loss'; there are 0 rows"),
        ("step,loss\n1,\n", {}, "there is no row with a 'loss'; there are 1 rows"),
        ("", {}, "it is empty; judge reads CSV"),
        ('{"step": 1, "loss": 3}\n{"step": 2, "loss"\n', {}, "line 2: it is no JSON object on one line"),
        ('[{"step": 1}]\n', {}, "line 1: found no JSON object"),
        ('{"step": 1, "loss": true}\n', {}, "line 1, column 'loss': found True, which is no number"),
        ('{"step": 1, "loss": [3]}\n', {}, "found \\[3\\], which is no number"),
        ('{"step": 1, "loss": 3, "loss": 4}\n', {}, "column 'loss' stands there 2 times"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, text, columns, said):
    with pytest.raises(UsageError, match=said) as error:
        log_of(written(tmp_path, text), **columns)
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(UsageError, match="it is damaged Parquet"):
        log_of(tmp_path / "broken.parquet")
    (tmp_path / "image").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UsageError, match="it is no UTF-8 text and no Parquet"):
        log_of(tmp_path / "image")
    both = pa.table([pa.array([1]), pa.array([2.0]), pa.array([3.0])], names=["step", "loss", "loss"])
    pq.write_table(both, tmp_path / "twice.parquet")
    with pytest.raises(UsageError, match="column 'loss' stands there 2 times"):
        log_of(tmp_path / "twice.parquet")
    pq.write_table(pa.table({"step": [1], "loss": ["high"]}), tmp_path / "words.parquet")
    with pytest.raises(UsageError, match="row 1, column 'loss': found 'high', which is no number"):
        log_of(tmp_path / "words.parquet")


def test_lr_and_loss_in_two_rows_of_a_step_are_one_step_as_csvlogger_writes_them(tmp_path):
    text = "step,lr-AdamW,train_loss,val_loss\n9,1e-3,,\n9,,5.0,\n19,,4.5,\n19,2e-3,,\n19,,,4.4\n29,3e-3,4.0,\n"
    log = log_of(written(tmp_path, text))
    assert triples(log) == [(9, 5.0, 1e-3), (19, 4.5, 2e-3), (29, 4.0, 3e-3)]
    assert log.facts["columns"] == {"step": "step", "loss": "train_loss", "lr": "lr-AdamW"}


def test_an_lr_of_another_step_is_not_borrowed(tmp_path):
    log = log_of(written(tmp_path, "step,lr,loss\n1,1e-3,\n2,,5.0\n,2e-3,\n3,3e-3,4.0\n"))
    assert [(step.step, step.loss) for step in log.steps] == [(2, 5.0), (3, 4.0)]
    assert math.isnan(log.steps[0].lr)


def test_two_monitored_lrs_are_not_guessed_between(tmp_path):
    with pytest.raises(UsageError, match="lr-AdamW/pg1 and lr-AdamW/pg2 could both be the lr"):
        log_of(written(tmp_path, "step,lr-AdamW/pg1,lr-AdamW/pg2,loss\n1,1e-3,2e-3,5.0\n"))
