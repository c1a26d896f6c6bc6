"""Logs as newcomers have them: a row every 50 steps, and NaN as pandas writes it."""

from __future__ import annotations

import math

import pytest

from keel_lab.detect.thresholds import Thresholds
from keel_lab.detect.verdict import Mode, Status
from keel_lab.judge.columns import Columns
from keel_lab.judge.judgement import Levels, judge_log
from keel_lab.judge.log import read_log
from keel_lab.judge.table import read_table

H1 = 3.24


def judged(path, unigram=H1):
    log = read_log(read_table(path, path.name), Columns())
    return judge_log(path.name, log, [], Levels(unigram=unigram), Thresholds()).verdict


def descent(step):
    return 2.3 + 3.2 * math.exp(-step / 150)


@pytest.mark.parametrize("rows", [8, 10, 12, 15, 20, 24, 30])
def test_a_clean_descent_of_few_rows_is_no_stagnation(tmp_path, rows):
    path = tmp_path / "thin.csv"
    every = 600 // rows
    path.write_text("step,loss,lr\n" + "".join(f"{i},{descent(i)},0.001\n" for i in range(every, 601, every)))
    found = judged(path)
    assert found.mode is not Mode.STAGNATION
    assert found.status in (Status.HEALTHY, Status.UNDECIDED)


@pytest.mark.parametrize("rows", [8, 20, 60])
def test_what_idles_at_the_unigram_level_is(tmp_path, rows):
    path = tmp_path / "flat.csv"
    path.write_text("step,loss,lr\n" + "".join(f"{i},{H1 + 0.03 * math.sin(i)},0.1\n" for i in range(rows)))
    assert judged(path).mode is Mode.STAGNATION


@pytest.mark.parametrize("last", [1, 200])
def test_losses_that_stop_before_the_log_does_are_not_called_healthy(tmp_path, last):
    path = tmp_path / "nan.csv"
    rows = [f"{i},{descent(i) if i <= 600 - last else ''},0.001\n" for i in range(1, 601)]
    path.write_text("step,loss,lr\n" + "".join(rows))
    assert judged(path).status is Status.UNDECIDED


def test_rows_of_other_metrics_between_them_are_no_matter(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("step,loss,val\n" + "".join(f"{i},{descent(i)},\n{i},,1.0\n" for i in range(1, 301)))
    assert judged(path).status is Status.HEALTHY
