"""The gallery of mistakes: wrong sweep files and command lines (tests/data/gallery), and what each one says.

`python -m tests.gallery` writes down what they say now; read the difference as a new user would before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from keel_lab.cli import main
from keel_lab.store import lease
from keel_lab.store.root import Root
from tests.command_line import TOYS

DATA = Path(__file__).parent / "data" / "gallery"
FILES, COMMANDS = DATA / "files.yaml", DATA / "commands.yaml"
BASES = {name: (DATA / f"{name}.yaml").read_text() for name in ("sweep", "grid", "search")}
VARIABLES = ("KEEL_LAB_STORAGE", "MLFLOW_TRACKING_URI", "RAY_ADDRESS")


def cases(path: Path) -> list[dict[str, Any]]:
    """The cases of one of the two files."""
    found: list[dict[str, Any]] = YAML().load(path)
    return found


def said_by_file(case: dict[str, Any], folder: Path) -> str:
    """What `validate` says of a wrong file; in the folder of `prepared`."""
    text = BASES[case["base"]]
    assert text.count(case["old"]) == 1, case["case"]
    (folder / "s.yaml").write_text(text.replace(case["old"], case["new"]))
    return said(["validate", "s.yaml"], folder)


def said_by_command(case: dict[str, Any], folder: Path) -> str:
    """What a wrong command line says; in the folder of `prepared`."""
    with lease.hold(Root.open(folder / "keel-lab-store"), "held"):
        return said(shlex.split(case["call"]), folder, case.get("code", 2))


def said(words: list[str], folder: Path, wanted: int = 2) -> str:
    """Standard error of a call that must end with an exit code and print nothing else, places and times made equal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    assert (code, out.getvalue()) == (wanted, ""), (words, code, out.getvalue(), err.getvalue())
    text = err.getvalue().replace(str(folder), "FOLDER")
    text = re.sub(r"fingerprint [0-9a-f]{12}", "fingerprint SHA", text)
    text = re.sub(r"(pid|-INT) \d+", r"\1 PID", text)
    return re.sub(r"on host \S+ since \S+ \S+;", "on host HOST since TIME;", text)


@contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """The folder, made the current one, with what the cases need: text, modules, files and stored sweeps."""
    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.txt").write_text("some words to learn from. " * 1000)
    (folder / "broken.py").write_text("import absent_package\n")
    (folder / "empty.yaml").write_text("# nothing\n")
    (folder / "picture.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (folder / "latin.yaml").write_bytes(b"schema: 1\nname: caf\xe9\n")
    (folder / "noloss.csv").write_text("step,reward\n1,2\n2,3\n")
    (folder / "good.csv").write_text("step,loss\n" + "".join(f"{i},{5 - i / 100}\n" for i in range(1, 100)))
    for name, text in {**BASES, "toys": TOYS}.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "changed.yaml").write_text(TOYS + 'data: {text: "moving/*.txt"}\n')
    (folder / "moving").mkdir()
    (folder / "moving" / "a.txt").write_text("the first words. " * 1000)
    before, environment = Path.cwd(), {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    path = list(sys.path)
    os.chdir(folder)
    try:
        _store_sweeps(folder)
        yield folder
    finally:
        os.chdir(before)
        os.environ.update(environment)
        sys.path[:] = path


def _store_sweeps(folder: Path) -> None:
    local = ["--executor", "local", "--tracking", "off"]
    _quiet(["run", "toys.yaml", *local])
    _quiet(["run", "toys.yaml", "name=held", "ramp.steps=50", "budget.trials=1", *local])
    for name in ("newer", "damaged"):
        _quiet(["run", "toys.yaml", f"name={name}", "budget.trials=1", "--storage", "broken", *local])
    _quiet(["run", "changed.yaml", "name=changed", "grid.architecture=toy", *local])
    (folder / "moving" / "a.txt").write_text("other words, and more of them. " * 1000)
    text = (folder / "changed.yaml").read_text()
    (folder / "changed.yaml").write_text(text.replace("name: toys", "name: changed"))
    sweeps = folder / "broken" / "sweeps"
    newer = sweeps / "newer" / "sweep.json"
    newer.write_text(newer.read_text().replace('"schema": 1', '"schema": 99', 1))
    (sweeps / "damaged" / "sweep.json").write_text("{")


def _quiet(words: list[str]) -> None:
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), contextlib.suppress(SystemExit):
        main(words)


def write_down() -> None:
    """Writes into the two files what their cases say now."""
    yaml = YAML()
    yaml.width = 1000
    with tempfile.TemporaryDirectory() as scratch, prepared(Path(scratch).resolve()) as folder:
        for path, saying in ((FILES, said_by_file), (COMMANDS, said_by_command)):
            found = yaml.load(path)
            for case in found:
                case["says"] = LiteralScalarString(saying(case, folder))
            yaml.dump(found, path)


if __name__ == "__main__":
    write_down()
