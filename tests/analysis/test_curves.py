"""The figure is checked by what it is made of; how it looks was checked by eye."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
from html import unescape

import pytest

from analysis.figures import curves
from analysis.figures.curves import loss_curves
from analysis.readings import read
from analysis.report import figures, store_figures
from keel_lab.detect.verdict import Status, Verdict
from keel_lab.settings import GridSchedule


@pytest.fixture
def drawn(lab, curve_like):
    """A sweep of two architectures, one diverging, with two seeds each."""
    for architecture, onset in (("post_ln", 200), ("keel", None)):
        for seed in (0, 1):
            planned = lab.plan("t", architecture, 16, seed)
            verdict = lab.healthy(planned) if onset is None else lab.diverged(planned, onset)
            lab.finish(planned, verdict, curve=curve_like(planned.trial, 301, onset, seed))
    lab.plan("t", "pre_ln", 16, 0)  # not run
    lab.save("t")
    return lab


def words(svg):
    """Comments of the SVG: with outlined glyphs, matplotlib writes each text as one."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(svg, parser)
    return [unescape(node.text.strip()) for node in root.iter() if node.tag is ElementTree.Comment]


def test_a_panel_a_finished_cell_with_onset_and_censoring(drawn, tmp_path):
    png, svg = figures(["t"], drawn.root, tmp_path / "figures")
    assert (png.name, svg.name) == ("loss-t.png", "loss-t.svg")
    found = words(svg.read_text())
    assert "post_ln, 16 blocks" in found
    assert "keel, 16 blocks" in found
    assert "Max LR 9.55e-3, collapse 2" in found
    assert "Max LR > 0.1 (censored)" in found
    assert "onsets" in found
    assert "unigram level H1" in found
    assert "learning rate" in found
    assert not any(text.startswith("pre_ln") for text in found)
    header = png.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:24])[0] > 600


def test_the_same_results_give_the_same_bytes(drawn, tmp_path):
    first = [path.read_bytes() for path in figures(["t"], drawn.root, tmp_path / "a")]
    assert first == [path.read_bytes() for path in figures(["t"], drawn.root, tmp_path / "b")]


def test_many_cells_go_on_to_a_next_page(lab, tmp_path, curve_like, monkeypatch):
    monkeypatch.setattr("analysis.figures.curves.PANELS", 1)
    for index in range(2):
        planned = lab.plan("many", f"my_package.architectures_of_mine:Scheme{index}", 16)
        lab.finish(planned, lab.healthy(planned), curve=curve_like(planned.trial, 20))
    lab.save("many")
    paths = figures(["many"], lab.root, tmp_path)
    assert [path.name for path in paths] == [f"loss-many-{page}.{kind}" for page in (1, 2) for kind in ("png", "svg")]
    assert "my_package.architectures_of_mine:" in words(paths[-1].read_text())
    assert "Scheme1, 16 blocks" in words(paths[-1].read_text())


def test_grid_curves_run_over_steps_and_survive_nan(lab, tmp_path, curve_like):
    planned = lab.plan("g", "keel", schedule=GridSchedule(lr=1e-3, steps=50, warmup_steps=5))
    curve = curve_like(planned.trial, 40)
    curve.append(curve.steps[-1]._replace(step=41, loss=float("nan"), unigram_loss=float("nan")))
    lab.finish(planned, Verdict(Status.UNDECIDED), curve=curve)
    lab.save("g")
    (sweep,) = read(["g"], lab.root)
    _, svg = loss_curves(sweep, lab.trials.curve, tmp_path)
    found = words(svg.read_text())
    assert "step" in found
    assert "undecided" in found
    assert "paired loss" not in found  # a step without its unigram loss cannot be paired


def test_figures_are_stored_beside_their_sweep(drawn):
    paths = store_figures(["t"], drawn.root)
    assert paths == [drawn.root.local(f"sweeps/t/figures/loss-t.{kind}") for kind in ("png", "svg")]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_nothing_finished_draws_nothing(lab, tmp_path):
    lab.seeds("new", "keel", 16, ["not_run"])
    lab.save("new")
    assert figures(["new"], lab.root, tmp_path) == []


def test_of_many_cells_those_that_diverged_are_drawn_and_it_says_so(lab, tmp_path, curve_like, monkeypatch):
    monkeypatch.setattr(curves, "PANELS", 2)
    monkeypatch.setattr(curves, "PAGES", 1)
    for architecture in ("pre_ln", "hybridnorm", "post_ln", "keel"):
        planned = lab.plan("t", architecture, 16, 0)
        lost = architecture in ("post_ln", "keel")
        verdict = lab.diverged(planned, 30) if lost else lab.healthy(planned)
        lab.finish(planned, verdict, curve=curve_like(planned.trial, 60, 30 if lost else None, 0))
    lab.save("t")
    _, svg = figures(["t"], lab.root, tmp_path / "figures")
    found = words(svg.read_text())
    assert {"post_ln, 16 blocks", "keel, 16 blocks"} <= set(found)
    assert "pre_ln, 16 blocks" not in found
    assert "learning rate; 2 of 4 cells, those that diverged first" in found


def test_what_was_drawn_of_the_same_results_is_not_drawn_again(drawn, monkeypatch):
    first = store_figures(["t"], drawn.root)
    monkeypatch.setattr(curves, "_write", None)
    assert store_figures(["t"], drawn.root) == first
    first[0].unlink()
    with pytest.raises(TypeError):  # drawn again, if it could
        store_figures(["t"], drawn.root)
    monkeypatch.undo()
    assert store_figures(["t"], drawn.root) == first
    assert first[0].exists()
