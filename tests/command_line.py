"""The command line in this process: what a call prints and how it ends."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from keel_lab.cli import main

TOYS = """\
schema: 1
name: toys
protocol: ramp
trainer: tests.toy_trainer
grid:
  architecture: [toy_crash, toy]
  depth: {blocks: [4]}
ramp: {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 60}
siblings: {reference: false}
"""


class Ended(NamedTuple):
    """Exit code, standard output and standard error of a call."""

    code: object
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    """`keel-lab WORDS...`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    return Ended(end.value.code, *capsys.readouterr())
