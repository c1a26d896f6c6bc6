"""The benchmark of searches runs each of them on its surrogate, and prints the same again."""

from __future__ import annotations

import re

from benchmarks import search


def printed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["search.py", "--repeats", "3", "--points", "12"])
    search.main()
    return capsys.readouterr().out


def test_every_search_is_counted(monkeypatch, capsys):
    out = printed(monkeypatch, capsys)
    assert re.findall(r"^(\w+) {3,}\d", out, re.MULTILINE) == ["ours", "tutorial", "told", "random"]
    assert out == printed(monkeypatch, capsys)


def test_the_surrogate_goes_through_what_was_measured():
    surrogate = search.Surrogate()
    assert len(surrogate.cells) == 6
    for name, cells in surrogate.cells.items():
        for cell in cells:
            assert abs(surrogate.at((name, 10**cell.log_lr)).mean - cell.mean) < 1e-9
    lowest = min(cell.mean for cells in surrogate.cells.values() for cell in cells)
    assert abs(surrogate.best() - lowest) < 0.01
