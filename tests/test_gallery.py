"""Every mistake of the gallery gets the message that is written down there, and the messages are fit to be read."""

from __future__ import annotations

import pytest

from tests import gallery

FILES, COMMANDS = gallery.cases(gallery.FILES), gallery.cases(gallery.COMMANDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with gallery.prepared(tmp_path_factory.mktemp("gallery").resolve()) as folder:
        yield folder


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["case"])
def test_a_wrong_file(case, folder):
    assert gallery.said_by_file(case, folder) == case["says"]


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case["case"])
def test_a_wrong_command_line(case, folder):
    assert gallery.said_by_command(case, folder) == case["says"]


def test_there_are_many_and_each_once():
    assert len(FILES) >= 60
    assert len(COMMANDS) >= 40
    assert len({case["case"] for case in FILES}) == len(FILES)
    assert len({case["call"] for case in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("case", [*FILES, *COMMANDS], ids=lambda case: case["case"])
def test_a_message_is_short_and_names_place_reason_and_remedy(case):
    """At most three lines: `PLACE: reason; remedy`, or what is wrong with the command line and what it takes."""
    lines = case["says"].splitlines()
    assert 1 <= len(lines) <= 3
    assert lines[0].startswith("error: ")
    assert "Traceback" not in case["says"]
    for said in lines if "old" in case else [case["says"]]:  # each line about a file is a problem of its own
        assert any(mark in said for mark in ("; ", "did you mean", "--help says more")), said
        assert len(said) < 600, said
