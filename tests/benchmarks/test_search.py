"""The benchmark of searches runs each of them on its surrogate, and prints the same again."""

from __future__ import annotations

import re

from benchmarks import search, search_for_real
from keel_lab import composition
from keel_lab.store.root import Root

NAMES = ["ours", "tutorial", "told", "random"]


def printed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["search.py", "--repeats", "3", "--points", "12"])
    search.main()
    return capsys.readouterr().out


def test_every_search_is_counted(monkeypatch, capsys):
    out = printed(monkeypatch, capsys)
    assert re.findall(r"^(\w+) {3,}\d", out, re.MULTILINE) == NAMES
    assert out == printed(monkeypatch, capsys)


def test_the_surrogate_goes_through_what_was_measured():
    surrogate = search.Surrogate()
    assert len(surrogate.cells) == 6
    for name, cells in surrogate.cells.items():
        for cell in cells:
            assert abs(surrogate.at((name, 10**cell.log_lr)).mean - cell.mean) < 1e-9
    lowest = min(cell.mean for cells in surrogate.cells.values() for cell in cells)
    assert abs(surrogate.best() - lowest) < 0.01


def test_real_training_is_done_once_and_judged_by_other_seeds(tmp_path, capsys):
    """On models that train within a second; the second time storage has all of it."""
    small = {"blocks: [8]": "blocks: [1]", "steps: 320": "steps: 20", "width: 32, heads: 4": "width: 8, heads: 2"}
    text = search.SWEEP.format(points=3, seed=0)
    for old, new in small.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "small.yaml"
    file.write_text(text)
    grid = tmp_path / "grid.csv"
    grid.write_text("metric,mean\nval_loss,9.0\nval_loss,8.0\nfinal_loss,1.0\n")
    opened = composition.open_sweep(file, [], lambda: Root.open(str(tmp_path)))
    printed = []
    for _ in range(2):
        search_for_real.compare(lambda seed: opened, str(tmp_path / "store"), range(1), 3, grid, 20)
        printed.append(capsys.readouterr().out)
    assert "dense grid's best of 8.0000 nats" in printed[0]
    assert re.findall(r"^seed 0 (\w+) +1 trials; best .* other seeds \d", printed[0], re.MULTILINE) == NAMES
    assert [int(number) for number in re.findall(r"(\d+) trained now", printed[1])] == [0, 0, 0, 0]
    assert re.sub(r"\d+ trained now", "", printed[0]) == re.sub(r"\d+ trained now", "", printed[1])
    assert int(re.findall(r"(\d+) trained now", printed[0])[0]) >= 5  # three points, and the best by two more seeds


def test_a_point_holds_if_its_own_loss_and_the_mean_over_seeds_do(monkeypatch):
    losses = {0: 2.0, 1: 2.2, 2: 2.4}
    runs = search_for_real.RealRuns.__new__(search_for_real.RealRuns)
    monkeypatch.setattr(runs, "loss", lambda architecture, lr, seed: losses[seed], raising=False)
    tried = search_for_real.Tried("keel", 1e-3, losses[0])
    assert runs.holds(tried, 2.2)
    assert not runs.holds(tried, 2.19)
    assert not runs.holds(search_for_real.Tried("keel", 1e-3, 2.3), 2.25)
