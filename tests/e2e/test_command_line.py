"""The product from the outside: real processes, a real sweep on real text, exit codes, stdout and stderr."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KEEL_LAB = [sys.executable, "-m", "keel_lab"]
SWEEP = """\
schema: 1
name: small
question: does the whole path work?
protocol: ramp
grid:
  architecture: [post_ln, pre_ln, keel]
  depth: {blocks: [2]}
  seed: [0]
per_architecture:
  keel: {alpha: L}
model: {width: 16, heads: 2, kv_heads: 1, ffn_width: 32, context: 16, init_std: match_width}
data: {text: "corpus/*.txt", tokenizer: bytes}
train: {batch_size: 8}
ramp: {shape: log, from_lr: 1e-3, peak_lr: 3.0, steps: 250}
siblings: {reference: false}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a sweep file and a corpus of our own: words drawn by a rule, learnable beyond their frequencies."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    words = ["alpha", "beta", "gamma", "delta", "norm", "stream", "branch", "layer"]
    for part in range(3):
        text = " ".join(words[(7 * i * i + 3 * i + part) % len(words)] for i in range(4000))
        (corpus / f"{part}.txt").write_text(text)
    (tmp_path / "small.yaml").write_text(SWEEP)
    return tmp_path


def environment(folder):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KEEL_LAB", "MLFLOW", "RAY"))}
    return clean | {"KEEL_LAB_STORAGE": str(folder / "store"), "PYTHONUNBUFFERED": "1"}


def keel_lab(folder, *arguments, expect=0):
    done = subprocess.run(
        [*KEEL_LAB, *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def report(folder, form):
    return keel_lab(folder, "report", "small", "--format", form).stdout


def test_a_sweep_from_file_to_table(folder):
    planned = json.loads(keel_lab(folder, "plan", "small.yaml", "--json").stdout)
    assert (planned["trials"], planned["done"]) == (3, 0)
    assert not (folder / "store").exists()

    first = keel_lab(folder, "run", "small.yaml", "--executor", "local")
    for name in ("post_ln", "pre_ln", "keel"):
        assert name in first.stdout
    assert "Traceback" not in first.stderr

    status = json.loads(keel_lab(folder, "status", "small", "--json").stdout)
    assert status["complete"]
    assert status["trials"] == 3

    again = keel_lab(folder, "run", "small.yaml", "--executor", "local")
    assert again.stdout == first.stdout
    assert json.loads(keel_lab(folder, "plan", "small.yaml", "--json").stdout)["done"] == 3

    cells = json.loads(report(folder, "json"))["tables"][0]["cells"]
    assert [cell["architecture"] for cell in cells] == ["post_ln", "pre_ln", "keel"]
    assert report(folder, "csv").count("\n") == 4
    assert report(folder, "md").count("|") > 10
    assert list((folder / "store" / "sweeps" / "small" / "figures").glob("*.png"))


def test_killed_driver_then_resume_gives_the_same_table(folder):
    """kill -9 of the driver in the middle of training; the report equals that of a sweep that was left alone."""
    driver = subprocess.Popen(
        [*KEEL_LAB, "run", "small.yaml"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    results = folder / "store" / "trials"
    deadline = time.monotonic() + 240
    while not list(results.glob("*/result.json")):
        assert driver.poll() is None, "the driver ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()

    done = {path.parent.name: path.stat().st_mtime_ns for path in results.glob("*/result.json")}
    keel_lab(folder, "resume", "small")
    for trial, written in done.items():
        assert (results / trial / "result.json").stat().st_mtime_ns == written, "a finished trial was run again"
    after_kill = {form: report(folder, form) for form in ("text", "csv", "json")}

    undisturbed = folder / "other"
    undisturbed.mkdir()
    for name in ("corpus", "small.yaml"):
        (undisturbed / name).symlink_to(folder / name)
    keel_lab(undisturbed, "run", "small.yaml", "--executor", "local")
    assert {form: report(undisturbed, form) for form in after_kill} == after_kill


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.yaml"], ["missing.yaml"]),
        (["run", "small.yaml", "model.heds=2"], ["model.heds", "heads"]),
        (["run", "small.yaml", "model.heads=3"], ["heads", "width"]),
        (["run", "small.yaml", "--tracking", "sqlit:///x.db"], ["sqlit", "sqlite"]),
        (["run", "small.yaml", "resources.cpus=512"], ["512", "CPU"]),
        (["resume", "nothing"], ["nothing"]),
        (["status", "nothing"], ["nothing"]),
        (["report", "nothing"], ["nothing"]),
        (["run", "small.yaml", "data.text=corpus/*.md"], ["corpus/*.md"]),
    ],
)
def test_bad_input_is_one_error_and_exit_2(folder, arguments, words):
    done = keel_lab(folder, *arguments, expect=2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert not list((folder / "store").glob("trials/*"))


def test_resume_over_other_bytes_is_refused(folder):
    keel_lab(folder, "run", "small.yaml", "--executor", "local", "ramp.steps=20", "grid.architecture=[pre_ln]")
    (folder / "corpus" / "0.txt").write_text("other bytes " * 2000)
    done = keel_lab(folder, "resume", "small", expect=2)
    assert "other bytes" in done.stderr
    assert Path("corpus").name in done.stderr
    done = keel_lab(folder, "run", "small.yaml", "--executor", "local", expect=2)
    assert "name=" in done.stderr


def test_a_context_longer_than_the_corpus_is_refused_before_anything_exists(folder):
    done = keel_lab(folder, "plan", "small.yaml", "model.context=60000", expect=2)
    assert "model.context: found 60000" in done.stderr
    keel_lab(folder, "run", "small.yaml", "model.context=60000", expect=2)
    assert not (folder / "store").exists()


def test_a_stored_shard_with_other_bytes_is_not_trained_on(folder):
    keel_lab(folder, "run", "small.yaml", "--executor", "local", "ramp.steps=20", "grid.architecture=[pre_ln]")
    (shard,) = (folder / "store" / "data").glob("*/train.bin")
    content = bytearray(shard.read_bytes())
    content[5] ^= 1
    shard.write_bytes(content)
    done = keel_lab(folder, "resume", "small", "--executor", "local", expect=2)
    assert "train.bin" in done.stderr


def test_a_grid_trial_whose_result_was_lost_has_its_validation_loss_again(folder):
    grid = [
        "protocol=grid",
        "ramp=null",
        "siblings=null",
        "schedule.steps=150",
        "grid.lr=[1e-2]",
        "grid.architecture=[pre_ln]",
    ]
    first = keel_lab(folder, "run", "small.yaml", "--executor", "local", *grid)
    (curve,) = (folder / "store" / "trials").glob("*/curve.parquet")
    curve.unlink()
    again = keel_lab(folder, "resume", "small", "--executor", "local")
    assert again.stdout == first.stdout
    assert "validation loss" in again.stdout
    assert "no finite" not in again.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seconds", [1.5, 4.0])
def test_a_signal_while_ray_starts_ends_with_its_code(folder, number, code, seconds):
    driver = subprocess.Popen(
        [*KEEL_LAB, "run", "small.yaml", "ramp.steps=5000", "--tracking", "off"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(seconds)
    driver.send_signal(number)
    out, err = driver.communicate(timeout=120)
    assert driver.returncode in (code, -number), err  # -number: before anything of ours was loaded
    assert "Traceback" not in err
    assert out == ""
