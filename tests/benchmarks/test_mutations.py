"""`benchmarks/mutations.py`, shortened: wrong sweep files are refused with a message and leave nothing behind."""

from __future__ import annotations

from benchmarks import mutations


def test_a_hundred_mutated_sweep_files(capsys):
    mutations.main(["--files", "100", "--seed", "1"])
    said = capsys.readouterr().out
    assert said.startswith("100 files in ")
    assert "no traceback, nothing stored" in said
    assert " good" in said
    assert " refused" in said
