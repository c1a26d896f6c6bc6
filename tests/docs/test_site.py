"""The documentation site: it builds with no broken link, its generated page is up to date, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from keel_lab.cli import cli
from keel_lab.spec import load
from keel_lab.spec.reference import markdown
from trainers.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])


def build(config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(into),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_builds_strictly_and_asks_no_other_server(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for name in ("index", "first_hour", "sweep_file", "divergence", "max_lr", "faq", "how_it_works"):
        page = tmp_path / "site" / ("index.html" if name == "index" else f"{name}/index.html")
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://(?!127)[^"]*"', text), name
    assert (tmp_path / "site" / "results" / "modes" / "loss-modes.png").exists()


@pytest.mark.parametrize("wrong", ["[a](nowhere.md)", "[a](other.md#nowhere)", "![a](missing.png)"])
def test_a_broken_link_stops_the_build(tmp_path: Path, wrong: str) -> None:
    """With our own settings, so that they cannot be loosened unnoticed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# One\n\n{wrong}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{settings}nav: [index.md, other.md]\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "Doc file 'index.md' contains a link" in done.stderr


def test_the_sweep_file_page_is_what_the_tables_say() -> None:
    """Else: keel-lab schema --format md > docs/sweep_file.md."""
    assert (DOCS / "sweep_file.md").read_text(encoding="utf-8") == markdown(CATALOGUE)


def commands(page: Path) -> list[list[str]]:
    """The words of each `keel-lab` line in a page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    return [
        [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)[1:]]
        for line in lines
        if line.startswith("keel-lab ")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_in_a_page_is_one_with_these_options(page: Path) -> None:
    for words in commands(page):
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, words
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        assert given <= {*known, "--help"}, words


def test_the_first_hours_sweeps_are_valid() -> None:
    found = [words for words in commands(DOCS / "first_hour.md") if words[0] in ("run", "plan")]
    assert found
    for _, file, *overrides in found:
        spec = load(ROOT / file, overrides, CATALOGUE)
        assert spec.name == "alpha"
