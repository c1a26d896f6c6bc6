"""What the two displays show of the same sweep."""

from __future__ import annotations

import io
import math

import pytest

from keel_lab.detect.verdict import Mode, Status, Verdict
from keel_lab.result import Failure, FailureKind, Outcome, TrialResult
from keel_lab.schedule.executor import Progress
from keel_lab.schedule.live_table import LiveTable
from keel_lab.schedule.one_line import OneLine
from keel_lab.schedule.plain_lines import PlainLines
from keel_lab.schedule.progress import describe, open_display
from keel_lab.settings import GridSchedule
from tests.toy_sweep import planned, toy_trial

DIVERGED = Verdict(
    Status.DIVERGED, Mode.COLLAPSE, onset_step=120, last_good_step=119, last_good_lr=0.012345, learned=True
)
HEALTHY = Verdict(Status.HEALTHY, last_good_step=200, last_good_lr=0.1, censored=True, learned=True)


def result(trial, verdict):
    outcome = Outcome.DIVERGED if verdict.status is Status.DIVERGED else Outcome.COMPLETED
    return TrialResult(trial.id, outcome, 140, verdict, {})


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (DIVERGED, "diverged (collapse) at step 120, Max LR 0.01235"),
        (HEALTHY, "healthy, Max LR > 0.1 (censored)"),
        (
            Verdict(Status.DIVERGED, Mode.STAGNATION, learned=False),
            "diverged (stagnation), Max LR not learned at this slope",
        ),
        (Verdict(Status.UNDECIDED), "undecided"),
    ],
)
def test_a_verdict_in_a_few_words(verdict, words):
    assert describe(verdict, toy_trial()).startswith(words)


def test_small_rates_keep_their_digits():
    verdicts = [Verdict(Status.DIVERGED, last_good_step=1, last_good_lr=lr) for lr in (1e-5, 3e-5, 1.04e-4)]
    words = [describe(verdict, toy_trial()) for verdict in verdicts]
    assert words == ["diverged, Max LR 1e-05", "diverged, Max LR 3e-05", "diverged, Max LR 0.000104"]


def test_a_grid_trial_has_no_max_lr():
    trial = toy_trial().model_copy(update={"schedule": GridSchedule(lr=1e-3)})
    assert describe(HEALTHY, trial) == "healthy"


def tell(display):
    """The same story for both."""
    trials = [planned(toy_trial(name)) for name in ("old", "good", "bad", "worse")]
    old, good, bad, worse = trials
    display.begin(trials, {old.trial.id: result(old.trial, HEALTHY)})
    display.live([Progress(good.trial.id, 0, math.nan, "starting")])
    display.live([Progress(good.trial.id, 60, 2.5, "healthy"), Progress(bad.trial.id, 60, math.nan, "suspect")])
    display.live([Progress("of another sweep", 1, 1.0, "healthy")])
    display.retried(worse, Failure(FailureKind.CRASH, "it broke"), 2)
    display.finished(bad, result(bad.trial, DIVERGED))
    display.failed(worse, Failure(FailureKind.CRASH, "it broke again"))
    display.note("interrupted by SIGINT: stopping")
    display.live([])
    display.close()


def test_plain_lines_tell_events_and_overall_progress():
    stream = io.StringIO()
    tell(PlainLines(stream, every=0.0))
    lines = stream.getvalue().splitlines()
    events = [line for line in lines if "ETA" not in line]
    assert events == [
        "4 trials, 1 already done",
        "good-b4-s0: started",
        "bad-b4-s0: started",
        "worse-b4-s0: crash: it broke; attempt 2 follows",
        "bad-b4-s0: diverged (collapse) at step 120, Max LR 0.01235 (140 steps)",
        "worse-b4-s0: failed, crash: it broke again",
        "interrupted by SIGINT: stopping",
    ]
    assert lines[-1].startswith("3/4 trials, 1 running, 1 failed, 1 retry, ")
    assert lines[-1].endswith("(good-b4-s0 60/200 loss 2.500)")
    assert "ETA" in lines[-1]


def test_the_table_shows_a_cell_a_row():
    stream = io.StringIO()
    display = LiveTable(stream)
    display._console.width = 140
    tell(display)
    text = stream.getvalue()
    rows = {line.split()[1]: line for line in text.splitlines() if "4 blocks" in line}
    assert set(rows) == {"old", "good", "bad", "worse"}
    assert "3/4 trials" in text
    assert "healthy" in rows["good"]
    assert "60/200" in rows["good"]
    assert "2.500" in rows["good"]
    assert "diverged (collapse) at step 120, Max LR 0.01235" in rows["bad"]
    assert "failed" in rows["worse"]
    assert "> 0.1 (censored)" in rows["old"]
    assert "worse-b4-s0: crash: it broke; attempt 2 follows" in text


def test_rows_beyond_the_terminal_are_counted():
    stream = io.StringIO()
    display = LiveTable(stream)
    display._console.size = (120, 12)
    display.begin([planned(toy_trial(f"arch{n}")) for n in range(30)], {})
    assert display._table(whole=False).caption.plain == "and 27 more cells"
    assert display._table(whole=True).row_count == 30
    display.close()


def test_a_terminal_gets_the_table_and_a_pipe_gets_lines():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert isinstance(open_display(Terminal()), LiveTable)
    assert isinstance(open_display(io.StringIO()), PlainLines)
    assert isinstance(open_display(io.StringIO(), "table"), LiveTable)
    assert isinstance(open_display(Terminal(), "lines"), PlainLines)
    assert isinstance(open_display(Terminal(), "line"), OneLine)
