"""benchmarks/detectors.py from files to what it prints, on a corpus of two curves; bad labels are named."""

from __future__ import annotations

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import detectors
from benchmarks.corpus import COLUMNS, load_cases, read_curves

H1 = 3.2


def curve(falls_to, rises_at=None):
    levels = [falls_to + (5.5 - falls_to) * 0.9**t for t in range(300)]
    return [level if rises_at is None or t < rises_at else 3.2 for t, level in enumerate(levels)]


@pytest.fixture
def corpus(tmp_path):
    """A healthy and a collapsed curve, and their labels."""
    curves = {"s/calm": curve(2.0), "s/lost": curve(2.0, 150)}
    steps = [(trial, t + 1, loss) for trial, losses in curves.items() for t, loss in enumerate(losses)]
    trials, numbers, losses = zip(*steps, strict=True)
    columns = {"trial": trials, "step": numbers, "loss": losses, "lr": [1e-5 * number for number in numbers]}
    columns |= {"unigram_loss": [H1] * len(steps), "grad_norm": [1.0] * len(steps), "clipped": [False] * len(steps)}
    pq.write_table(
        pa.table(columns).replace_schema_metadata({"unigram_entropy": repr(H1)}), tmp_path / "curves.parquet"
    )
    rows = [
        ["s/calm", "tune", "healthy", "", "", "", "", "healthy/", "healthy/", "agree"],
        [
            "s/lost",
            "held_out",
            "diverged",
            "collapse",
            "149",
            "151",
            "s/calm",
            "diverged/collapse",
            "healthy/",
            "forks",
        ],
    ]
    write_labels(tmp_path, rows)
    return tmp_path, rows


def write_labels(folder, rows):
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def printed(folder, monkeypatch, capsys, *words):
    paths = ["--curves", str(folder / "curves.parquet"), "--labels", str(folder / "labels.csv")]
    monkeypatch.setattr("sys.argv", ["detectors.py", *paths, *words])
    code = detectors.main()
    return code, *capsys.readouterr()


def test_the_command_scores_every_detector(corpus, monkeypatch, capsys):
    folder, _ = corpus
    code, out, _ = printed(folder, monkeypatch, capsys, "--json")
    tables = json.loads(out)["tables"]
    assert code == 0
    assert list(tables) == ["tune", "held_out", "fresh", "all"]
    for name in ("streaming", "whole", "streaming_siblings"):
        found = tables["all"]["detectors"][name]
        assert (found["precision"], found["recall"]) == ([1, 1], [1, 1])
        assert found["modes"]["collapse"]["recall"] == [1, 1]
        assert found["onset"]["median"] == 0
    assert tables["all"]["detectors"]["non_finite_only"]["recall"] == [0, 1]
    assert tables["tune"]["detectors"]["streaming"]["recall"] == [0, 0]
    assert tables["all"]["labels"] == {"labelled_twice": 2, "same_verdict": 1, "same_mode": 1}


def test_the_command_lists_what_is_wrong_and_prints_the_same_again(corpus, monkeypatch, capsys):
    folder, _ = corpus
    first = printed(folder, monkeypatch, capsys, "--list")
    assert first == printed(folder, monkeypatch, capsys, "--list")
    assert "non_finite_only  held_out  s/lost  healthy " in first[1]
    _, out, _ = printed(folder, monkeypatch, capsys, "--part", "tune", "--list", "streaming")
    assert "held_out" not in out
    assert "all: " not in out


def test_a_gradient_that_is_nan_is_handed_on_as_not_finite(corpus):
    folder, _ = corpus
    table = pq.read_table(folder / "curves.parquet")
    norms = [float("nan"), *[1.0] * (table.num_rows - 1)]
    table = table.set_column(table.schema.get_field_index("grad_norm"), "grad_norm", pa.array(norms))
    pq.write_table(table, folder / "curves.parquet")
    curves, entropy = read_curves(folder / "curves.parquet")
    assert curves["s/calm"][0].grad_norm == float("inf")
    assert entropy == H1


@pytest.mark.parametrize(
    ("row", "changed", "message"),
    [
        (0, {0: "s/other"}, "line 2: no curve of a trial 's/other'"),
        (1, {0: "s/calm"}, "line 3: s/calm has a label already"),
        (0, {1: "test"}, "line 2: part is one of tune, held_out"),
        (0, {2: "undecided"}, "line 2: part is one of"),
        (0, {2: "fine"}, "line 2: 'fine' is not a valid Status"),
        (0, {3: "collapse"}, "line 2: healthy with mode 'collapse'"),
        (1, {3: ""}, "line 3: diverged with mode ''"),
        (1, {3: "stagnation"}, "line 3: diverged stagnation with an interval"),
        (1, {4: "", 5: ""}, "line 3: diverged collapse without an interval"),
        (1, {4: "152"}, "line 3: the interval 152 to 151 is none of steps 1 to 300"),
        (1, {6: "s/calm;s/none"}, "line 3: no curve of a trial 's/none'"),
    ],
)
def test_a_bad_label_is_named_with_its_line(corpus, monkeypatch, capsys, row, changed, message):
    folder, rows = corpus
    for column, value in changed.items():
        rows[row][column] = value
    write_labels(folder, rows)
    code, out, error = printed(folder, monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert message in error
    assert "Traceback" not in error


def test_every_curve_needs_a_label(corpus):
    folder, rows = corpus
    write_labels(folder, rows[:1])
    with pytest.raises(ValueError, match=r"no label of s/lost"):
        load_cases(folder / "curves.parquet", folder / "labels.csv")
    (folder / "labels.csv").write_text("trial,part\n")
    with pytest.raises(ValueError, match="no column verdict, mode"):
        load_cases(folder / "curves.parquet", folder / "labels.csv")
