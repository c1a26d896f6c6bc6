"""`keel-lab judge` from its command line: shared curves, CASES.md, siblings, levels, output, errors."""

from __future__ import annotations

import csv
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from keel_lab.cli import cli
from keel_lab.errors import KeelLabError
from keel_lab.judge.command import spread
from tests.simulated_curves import TRENDS, gaussian, losses

FOLDER = Path(__file__).parents[1] / "data" / "curves"
KEYS = {"file", "verdict", "mode", "onset_step", "last_good_step", "last_good_lr", "censored", "evidence"}


def rows(name):
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


INDEX = {row["file"]: row for row in rows("INDEX.csv")}
WHOLE = [name for name in INDEX if "_frag" not in name]
SIBLINGS = {"xm_lr": ["xm_lr1e-4.csv", "xm_lr1e-3.csv"], "vk_": ["vk_moe_adam_lr1e-3.csv"]}
MODES = {"irrecoverable": "irrecoverable", "degradation": "degradation"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def judge(*arguments):
    """What is printed."""
    done = CliRunner().invoke(cli, ["judge", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)
    return done.output


def judged(*arguments):
    return json.loads(judge(*arguments, "--json"), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def refused(*arguments):
    with pytest.raises(KeelLabError) as error:
        judge(*arguments)
    assert error.value.exit_code == 2
    return str(error.value)


def curve_file(name, values, lr=None, first=1, **columns):
    """Writes a CSV into the current folder."""
    lines = [",".join(["step", "loss", *(["lr"] if lr else []), *columns])]
    for i, value in enumerate(values):
        others = [str(lr(first + i) if callable(lr) else lr)] if lr else []
        lines.append(",".join([str(first + i), str(value), *others, *(str(column[i]) for column in columns.values())]))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def healthy(steps=300, seed=0, level=0.0):
    return [value + level for value in losses(TRENDS["power law"], gaussian(0.05), steps, seed)]


@pytest.mark.parametrize("name", WHOLE)
def test_every_labelled_curve(name):
    label = INDEX[name]
    siblings = next((found for start, found in SIBLINGS.items() if name.startswith(start)), [])
    option = ["--siblings", *(FOLDER / one for one in siblings)] if siblings else []
    (found,) = judged(FOLDER / name, *option)
    assert set(found) == KEYS | {"mode"}
    assert found["file"] == str(FOLDER / name)
    if label["label"] not in MODES:
        assert found["verdict"] in ("healthy", "transient", "undecided")
        assert (found["verdict"] == "undecided") == (name == "mn_soda_appended_val.csv")  # its last run: 3 samples
        assert (found["mode"], found["onset_step"]) == (None, None)
        return
    assert (found["verdict"], found["mode"]) == ("diverged", MODES[label["label"]])
    numbers = [int(row["step"]) for row in rows(name)]
    low = numbers[max(0, numbers.index(int(label["last_good_lo"])) - 2)]
    high = numbers[min(len(numbers) - 1, numbers.index(int(label["last_good_hi"])) + 2)]
    assert low <= found["last_good_step"] <= high
    assert found["onset_step"] == numbers[numbers.index(found["last_good_step"]) + 1]
    lrs = {int(row["step"]): float(row["lr"]) for row in rows(name) if row.get("lr")}
    assert found["last_good_lr"] == lrs.get(found["last_good_step"])


@pytest.mark.parametrize("name", [name for name in INDEX if "_frag" in name])
def test_fragments_are_undecided(name):
    assert judged(FOLDER / name)[0]["verdict"] == "undecided"


def test_case_1_a_nan_does_not_shift_the_answer():
    file = curve_file("a.csv", [0.90, 0.89, 0.87, 0.86, 0.85, 0.84, "nan"], lr=lambda i: 1e-5 * 2**i, first=0)
    (found,) = judged(file)
    assert (found["verdict"], found["mode"], found["onset_step"]) == ("diverged", "non_finite", 6)
    assert (found["last_good_step"], found["last_good_lr"]) == (5, pytest.approx(1e-5 * 2**5))


def test_case_2_a_constant_loss():
    file = curve_file("a.csv", [3.2] * 500)
    assert judged(file)[0]["verdict"] == "healthy"
    for option in ("--unigram", "--chance"):
        (found,) = judged(file, option, "3.2")
        assert (found["verdict"], found["mode"], found["last_good_step"]) == ("diverged", "stagnation", None)
    assert judged(file, "--chance", "5.5")[0]["verdict"] == "healthy"


def test_case_3_a_run_of_nan_has_its_onset():
    values = [*losses(lambda t: 4.0, gaussian(0.05), 3009, 3), *["NaN"] * 50]
    (found,) = judged(curve_file("a.csv", values))
    assert (found["mode"], found["onset_step"], found["last_good_step"]) == ("non_finite", 3010, 3009)


def test_case_4_one_inf_is_a_transient():
    values = [*losses(lambda t: 1.25, gaussian(0.02), 1000, 4), "inf", 1.248]
    values += losses(lambda t: 1.25, gaussian(0.02), 50, 5)
    (found,) = judged(curve_file("a.csv", values, first=44459))
    assert (found["verdict"], found["mode"], found["censored"]) == ("transient", None, True)
    assert found["evidence"]["transient_steps"] == [45459]


def test_case_5_files_at_several_lrs_bracket_the_max_lr():
    failing = [1.109, 1.537, 0.866, 1.327, 1.200, *["nan"] * 5]
    files = [curve_file("a.csv", healthy(100), lr=0.001)]
    files += [curve_file(f"{lr}.csv", failing, lr=lr) for lr in (0.01, 0.1)]
    assert [one["verdict"] for one in judged(*files)] == ["healthy", "diverged", "diverged"]
    assert judge(*files).splitlines()[-1] == "Max LR bracket [0.001, 0.01)"
    assert judge(*files[1:]).splitlines()[-1] == "Max LR < 0.01 (every file diverged)"
    bare = [curve_file("b.csv", healthy(100)), curve_file("c.csv", failing)]
    assert judge(f"{bare[0]}@1e-3", f"{bare[1]}@1e-2").splitlines()[-1] == "Max LR bracket [0.001, 0.01)"
    assert "bracket" not in judge(*bare)
    good = [curve_file("d.csv", healthy(100, 1), lr=0.002), curve_file("e.csv", healthy(100, 2), lr=0.2)]
    assert judge(files[0], good[0]).splitlines()[-1] == "Max LR > 0.002 (censored: no file diverged)"
    assert judge(files[1], good[1]).splitlines()[-1].startswith("no Max LR bracket: LR 0.01 diverged, LR 0.2 did not")
    ramps = [curve_file(f"r{k}.csv", healthy(100, k), lr=lambda step, k=k: 1e-4 * step * k) for k in (1, 2)]
    assert "Max LR" not in judge(*ramps)  # an LR that only rises was held nowhere


def test_siblings_take_every_file_up_to_the_next_option():
    assert spread(["a", "--siblings", "b", "c", "--json", "d"]) == [
        "a", "--siblings", "b", "--siblings", "c", "--json", "d",
    ]  # fmt: skip
    assert spread(["--siblings", "b", "divergence.x=1", "a"]) == ["--siblings", "b", "divergence.x=1", "a"]
    assert spread(["a", "--siblings=b", "c"]) == ["a", "--siblings=b", "c"]
    assert spread(["a", "--siblings", "b", "--siblings", "c"]) == ["a", "--siblings", "b", "--siblings", "c"]
    assert spread(["a", "--siblings"]) == ["a", "--siblings"]
    slow, good = FOLDER / "xm_lr1e-4.csv", FOLDER / "xm_lr1e-3.csv"
    (found,) = judged(FOLDER / "xm_lr1e-2.csv", "--siblings", slow, good)
    assert found["evidence"]["siblings"]["used"] == sorted(map(str, (slow, good)))
    text = judge(FOLDER / "xm_lr1e-2.csv", "--siblings", slow, good)
    assert "xm_lr1e-2.csv: diverged (degradation), onset at step 180, last good step 170 (LR 0.0068)" in text
    assert "xm_lr1e-3.csv at lower LR from step 180 on" in text
    assert "was left out: its LR is higher" in judge(slow, "--siblings", good)


def test_a_sibling_needs_an_lr_from_its_column_or_given():
    a, b = curve_file("a.csv", healthy(200, 1, 0.4)), curve_file("b.csv", healthy(200, 2))
    said = refused(a, "--siblings", b)
    assert "a.csv: it has no LR" in said
    assert "b.csv: it has no LR" in said
    assert "a.csv@1e-3" in said
    (found,) = judged(f"{a}@1e-2", "--siblings", f"{b}@1e-3")
    assert (found["file"], found["mode"]) == ("a.csv@1e-2", "degradation")
    assert judged(a, "--lr", "0.01", "--siblings", f"{b}@0.001")[0]["mode"] == "degradation"
    assert judged(f"{a}@1e-3", "--siblings", f"{b}@1e-2")[0]["verdict"] == "healthy"


def test_the_unigram_column_turns_to_the_paired_loss():
    r = random.Random(0)
    batch = [r.gauss(0.0, 0.3) for _ in range(450)]
    own = [2.4 + 3.1 * math.exp(-t / 60) + r.gauss(0.0, 0.03) + (0.8 if t > 300 else 0.0) for t in range(450)]
    file = curve_file("a.csv", [x + y for x, y in zip(batch, own, strict=True)], unigram_loss=[3.2 + x for x in batch])
    (found,) = judged(file, "--unigram", "3.2")
    assert (found["mode"], found["last_good_step"]) == ("collapse", 301)
    assert found["evidence"]["loss"] == "paired"
    assert found["evidence"]["sigma"] < 0.06
    (estimated,) = judged(file)
    assert estimated["evidence"]["unigram_entropy"] == pytest.approx(3.2, abs=0.05)
    assert estimated["evidence"]["level_of_the_ignorant"] == "mean of unigram_loss"
    assert (estimated["mode"], estimated["last_good_step"]) == ("collapse", 301)


def test_a_fall_back_to_chance_is_not_called_a_collapse():
    values = losses(lambda t: 5.5 if t > 300 else 2.0 + 3.5 * math.exp(-t / 30), gaussian(0.05), 450, 1)
    file = curve_file("a.csv", values)
    assert judged(file, "--chance", "5.5")[0]["mode"] == "irrecoverable"
    assert judged(file, "--unigram", "5.5", "--chance", "5.6")[0]["mode"] == "collapse"


def test_thresholds_are_set_and_checked_as_in_a_sweep_file():
    values = [*losses(lambda t: 2.0, gaussian(0.05), 300, 1), *losses(lambda t: 2.5, gaussian(0.05), 60, 2)]
    file = curve_file("a.csv", values)
    assert judged(file)[0]["verdict"] == "unconfirmed"
    assert judged(file, "divergence.confirm_samples=40")[0]["verdict"] == "diverged"
    assert judged("divergence.confirm_samples=40", file)[0]["verdict"] == "diverged"
    assert "did you mean divergence.confirm_samples?" in refused(file, "divergence.confirm_sample=40")
    assert "did you mean divergence.confirm_samples?" in refused(file, "confirm_samples=40")
    assert "must be an integer of at least 1" in refused(file, "divergence.confirm_samples=0")
    assert "a second time" in refused(file, "divergence.cap_sigma=3", "divergence.cap_sigma=4")
    assert "only thresholds can be set here" in refused(file, "model.width=3")
    assert "one value a threshold" in refused(file, "divergence.cap_sigma=[3,4]")


def test_a_path_with_an_equals_sign_is_a_file(tmp_path):
    (tmp_path / "lr=0.1").mkdir()
    assert judged(curve_file("lr=0.1/a.csv", healthy(50)))[0]["verdict"] == "healthy"
    assert judged(curve_file("seed=1", healthy(50)))[0]["file"] == "seed=1"


def test_a_split_log_says_so():
    assert judged(FOLDER / "xm_lr1e-3_appended.csv")[0]["evidence"]["log"]["runs"] == 2
    assert "the log holds 2 runs, one after the other; the last one was judged" in judge(
        FOLDER / "xm_lr1e-3_appended.csv"
    )


def test_both_detectors_are_in_the_evidence():
    (found,) = judged(FOLDER / "xm_lr1e-1.csv")
    evidence = found["evidence"]
    assert set(evidence["detectors"]) == {"streaming-2", "whole-2"}
    assert evidence["agree"] is True
    assert evidence["onset_interval"] == [found["last_good_step"], found["onset_step"]]
    for key in ("best_level", "level", "sigma", "rule", "detector", "samples"):
        assert evidence[key] is not None


def test_what_is_wrong_with_several_files_is_said_at_once():
    good = curve_file("good.csv", healthy(50))
    Path("words.csv").write_text("step,loss\n1,high\n")
    said = refused(good, "words.csv", "missing.csv", "--siblings", "gone.csv").splitlines()
    assert len(said) == 3
    assert "words.csv: line 2, column 'loss'" in said[0]
    assert "missing.csv: there is no such file" in said[1]


@pytest.mark.parametrize("lr", ["0", "-1e-3", "inf", "fast", ""])
def test_a_wrong_lr_behind_a_file_is_named_as_such(lr):
    good = curve_file("good.csv", healthy(50))
    said = f"good.csv@{lr}: found {lr!r} behind the @; it is the LR of good.csv, a number above 0"
    assert said in refused(f"{good}@{lr}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], "found a folder"),
        (["divergence.cap_sigma=3"], "no file to judge"),
        (["a.csv", "--chance", "nan"], "--chance: found nan; it is a loss in nats above 0"),
        (["a.csv", "--unigram", "-1"], "--unigram: found -1.0"),
        (["a.csv", "--unigram", "3", "--chance", "2"], "--unigram 3.0 is above --chance 2.0"),
        (["0123456789abcdef0123456789abcdef"], "there is no MLflow database"),
    ],
)
def test_what_is_wrong_with_the_call(arguments, said):
    curve_file("a.csv", healthy(50))
    assert said in refused(*arguments)
    assert not Path("keel-lab-store").exists()


@pytest.mark.parametrize(("arguments", "code"), [(["a.csv"], 0), (["b.csv"], 0), (["none.csv"], 2), ([], 2)])
def test_exit_codes_and_streams(arguments, code):
    curve_file("a.csv", healthy(50))
    curve_file("b.csv", [3.0, "nan", "nan", "nan"])
    done = subprocess.run([sys.executable, "-m", "keel_lab", "judge", *arguments], capture_output=True, text=True)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)
    assert bool(done.stderr) == (code == 2)
    assert "Traceback" not in done.stderr


def test_judging_files_imports_nothing_heavy():
    curve_file("a.csv", healthy(50))
    code = (
        "import sys\nfrom keel_lab.cli import main\nsys.argv = ['keel-lab', 'judge', 'a.csv', '--json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"torch", "pandas", "mlflow", "lightning", "ray", "matplotlib", "scipy", "pyarrow", "numpy"}
