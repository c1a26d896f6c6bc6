"""The code in docs/ does what its page says: files are written, commands and Python run, shown output compared."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from analysis import COLUMNS
from keel_lab.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|yaml))\n")


def run(page, capfd):
    """Runs a page's blocks in order in the current folder; a `text` block is part of what the one before it printed."""
    names, printed = {}, ""
    for language, text in BLOCK.findall((DOCS / page).read_text()):
        file = FILE.match(text)
        if file:
            Path(file[1]).write_text(text)
        elif language == "python":
            exec(compile(text, page, "exec"), names)
            printed = capfd.readouterr().out
        elif language == "sh":
            for line in text.splitlines():
                program, *words = shlex.split(line, comments=True)
                assert program == "keel-lab"
                with pytest.raises(SystemExit) as end:
                    main(words)
                assert end.value.code == 0, capfd.readouterr().err
            printed = capfd.readouterr().out
        else:
            assert language == "text"
            assert text in printed
    return names


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEEL_LAB_STORAGE", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_python(empty_folder, capfd):
    names = run("python.md", capfd)
    assert names["summary"].sweep == "first"
    assert names["summary"].completed + names["summary"].diverged == len(names["frame"]) == 2
    assert str(names["verdict"].status) == "diverged"
    assert 295 <= names["verdict"].last_good_step <= 315


def test_bring_your_own(empty_folder, capfd):
    run("bring_your_own.md", capfd)
    stored = {path.name for path in (empty_folder / "keel-lab-store" / "sweeps").iterdir()}
    assert stored == {"quadratic", "scaled"}


def test_the_table_of_columns_is_the_columns():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", (DOCS / "python.md").read_text(), re.MULTILINE)
    assert {name: (dtype, unit.strip(), meaning) for name, dtype, unit, meaning in rows} == COLUMNS


def test_search(empty_folder, capfd):
    run("search.md", capfd)
    assert not (empty_folder / "keel-lab-store").exists()
