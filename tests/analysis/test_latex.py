"""Reports as LaTeX: well-formed, nothing lost, and Table 1 in the paper's form."""

from __future__ import annotations

import re

import pytest

from analysis.report import build
from analysis.tables.latex import latex, to_latex
from analysis.tables.layout import Group, Table
from analysis.tables.max_lr_paper import TITLES
from keel_lab.settings import GridSchedule
from trainers.catalogue import CATALOGUE


def check(text):
    """Environments nest, braces and dollars pair, and every row of a tabular has as many cells as it has columns."""
    bare = re.sub(r"\\[\\{}$%&#_]", "", re.sub(r"^%.*$", "", text, flags=re.MULTILINE))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    stack = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    assert not re.findall(r"(?<!\\)[_#^](?!\{)", re.sub(r"\$[^$]*\$|\\label\{.*?\}", "", bare))
    tabulars = re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", unstacked(text), re.DOTALL)
    for columns, body in tabulars:
        for row in rows_of(body):
            spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            assert row.count("&") - row.count(r"\&") + 1 + sum(spans) - len(spans) == len(columns), row


def unstacked(text):
    """Cells of two lines, each with a tabular of its own, as one line."""
    inner = r"\\begin\{tabular\}\[t\]\{@\{\}c@\{\}\}(.*?) \\\\ \{\\footnotesize (.*?)\}\\end\{tabular\}"
    return re.sub(inner, r"\1 \2", text)


def rows_of(text):
    return [line.strip() for line in text.splitlines() if line.endswith(r"\\")]


def cells_of(text):
    return [[cell.strip() for cell in row.removesuffix(r"\\").split("&")] for row in rows_of(unstacked(text))]


@pytest.mark.parametrize(
    ("plain", "typeset"),
    [
        ("2.51e-2", r"$2.51 \times 10^{-2}$"),
        ("> 0.1 (censored)", "$> 0.1$ (censored)"),
        (
            "1.26e-2 [< 3.80e-3, > 0.1]",
            r"$1.26 \times 10^{-2}$ [$< 3.80 \times 10^{-3}$, $> 0.1$]",
        ),
        ("alpha=L^0.25 width=64", r"alpha=L\textasciicircum{}0.25 width=64"),
        ("90% & 1_000 {x} #1 ~ \\", r"90\% \& 1\_000 \{x\} \#1 \textasciitilde{} \textbackslash{}"),
        ("best LR >= 3e-3: a > b", r"best LR $\geq 3 \times 10^{-3}$: a $>$ b"),
        ("keel-b16-s0, 16 blocks, streaming-1", "keel-b16-s0, 16 blocks, streaming-1"),
    ],
)
def test_text_becomes_latex(plain, typeset):
    assert latex(plain) == typeset


def test_table_1_as_the_paper_typesets_it(lab):
    lab.seeds("t_1", "post_ln", 16, [102, 112, 122])
    lab.seeds("t_1", "post_ln", 32, ["stagnant", "stagnant", "stagnant"])
    lab.seeds("t_1", "pre_ln", 16, [202, 212, None])
    lab.seeds("t_1", "pre_ln", 32, [202, "failed", "not_run"])
    lab.seeds("t_1", "keel", 16, [None, None, None])
    lab.save("t_1")
    text = build("t_1", lab.root, "tex")
    check(text)
    assert text.startswith("% t_1: 13 of 15 trials finished, 1 failed; `keel-lab resume t_1` runs the rest.\n")
    assert r"\label{tab:t-1}" in text
    over, heads, *rows = cells_of(text)
    assert over == ["", r"\multicolumn{2}{c}{Max LR at a depth of}"]
    assert heads == ["Architecture", "32 sub-layers", "64 sub-layers"]
    post, pre, keel = (
        r"$1.26 \times 10^{-3}$ [$8.24 \times 10^{-4}$, $1.92 \times 10^{-3}$]",
        r"$1.26 \times 10^{-2}$ [$3.80 \times 10^{-3}$, $> 0.1$]",
        "$> 0.1$ (censored)",
    )
    assert rows == [
        ["Post-LN", post, "not learned at this slope"],
        ["Pre-LN", pre, r"$1.00 \times 10^{-2}$ (no interval) (n = 1 of 3)"],
        ["Keel", keel, "-"],
    ]
    notes = text.partition(r"\linewidth}\footnotesize")[2]
    assert "n = 3 in each cell that does not say otherwise." in notes
    assert "compare readings at equal slope only" in notes
    assert "ratio" not in notes
    assert " range " not in notes


def test_one_seed_and_other_axes(lab):
    for alpha, onset in (("L", 102), ("L^0.25", 202)):
        planned = lab.plan("a", "keel", 16, axes=(("alpha", alpha),), options={"alpha": float(onset)})
        lab.finish(planned, lab.diverged(planned, onset))
    lab.save("a")
    text = build("a", lab.root, "tex")
    check(text)
    _, heads, *rows = cells_of(text)
    assert heads == ["Architecture", "Axes", "32 sub-layers"]
    assert rows == [
        ["Keel", "alpha=L", r"$1.00 \times 10^{-3}$"],
        ["Keel", r"alpha=L\textasciicircum{}0.25", r"$1.00 \times 10^{-2}$"],
    ]


def test_several_sweeps_and_a_grid_make_a_table_each(lab):
    lab.seeds("r", "pre_ln", 16, [102])
    lab.save("r")
    for lr in (1e-3, 3e-3):
        planned = lab.plan("g", "pre_ln", 4, axes=(("lr", lr),), schedule=GridSchedule(lr=lr))
        lab.finish(planned, lab.healthy(planned), metrics={"val_loss": 2.5})
    lab.save("g")
    text = build(["r", "g"], lab.root, "tex")
    check(text)
    assert re.findall(r"\\label\{(.*?)\}", text) == ["tab:r-g", "tab:r-g-2"]
    assert ["", "\\multicolumn{3}{c}{Pre-LN}"] in cells_of(text)
    assert ["validation loss", "2.5000 *", "2.5000", "not monotone"] in cells_of(text)


def test_any_words_stay_well_formed():
    table = Table(
        "a_b & {c} $d", ("x^y",), (Group("g%", ("1e-3", "#"), "50%"),), (("\\", "> 1e-4", "~"),), ("n_1 < 2",)
    )
    check(to_latex(table, "a b/c"))


def test_titles_are_those_of_the_architectures():
    assert {name: CATALOGUE.declaration(name).title for name in CATALOGUE.names()} == TITLES
