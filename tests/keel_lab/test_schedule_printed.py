"""What a trainer prints: kept a line at a time, up to a limit, and shown on standard error."""

import io
import sys

from keel_lab.schedule import printed
from keel_lab.schedule.printed import printed_into


def test_lines_are_kept_whole_and_a_progress_bar_once(capsys):
    log = io.StringIO()
    with printed_into(log):
        print("one")  # noqa: T201
        for percent in (0, 50, 100):
            print(f"\r{percent} %", end="")  # noqa: T201
        log.write("a record of logging\n")
        print("\nlast", end="")  # noqa: T201
    assert log.getvalue() == "one\na record of logging\n100 %\nlast\n"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("one\n")


def test_beyond_the_limit_it_is_counted(monkeypatch):
    monkeypatch.setattr(printed, "LIMIT", 8)
    log = io.StringIO()
    with printed_into(log):
        print("12345")  # noqa: T201
        print("67890")  # noqa: T201
    assert log.getvalue() == "12345\n67... and 4 more characters that were printed\n"


def test_who_holds_it_afterwards_writes_on(capsys):
    log = io.StringIO()
    with printed_into(log):
        held = sys.stdout
    held.write("late\n")
    assert log.getvalue() == ""
    assert capsys.readouterr().err == "late\n"
