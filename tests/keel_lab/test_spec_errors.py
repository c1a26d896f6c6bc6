"""Wrong sweep files, each with the one message it gets: place, key, what was found, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keel_lab.architecture import Catalogue
from keel_lab.errors import SpecError, UsageError
from keel_lab.spec import SweepSpec, load

Reader = Callable[..., SweepSpec]

NAMES = "post_ln, pre_ln, mix_ln, keel"
DEPTH = "depth is never a bare number: write depth: {blocks: [16]} or {sublayers: [32]} (2 sub-layers a block)"
EVEN = "(a head has an even width, as RoPE turns pairs)"
KEEL = "keel has the options alpha, final_norm, first"
RULE = "must be a number, or a rule in L, the number of sub-layers (2L, L/2, L^0.25, sqrt(L), (4L)^-0.25), above 0"
FOLDER = "s.yaml:2: name: found {}; "

# (replace this, by that, the message)
RAMP_CASES = [
    ("schema: 1\n", "", "s.yaml:1: schema: found nothing; required at the top: schema: 1"),
    ("schema: 1", "schema: 2", "s.yaml:1: schema: found 2; this version of keel_lab reads schema 1: upgrade keel_lab"),
    ("schema: 1", "schema: '1'", 's.yaml:1: schema: found "1"; must be 1'),
    ("schema: 1", "schema: true", "s.yaml:1: schema: found true; must be 1"),
    ("name: toy", "name:", "s.yaml:2: name: found nothing; required at the top"),
    ("name: toy", "name: my toy", "(did you mean my_toy?)"),
    ("name: toy", "name: ../toy", "s.yaml:2: name: found ../toy; "),
    ("name: toy", "name: .toy", "s.yaml:2: name: found .toy; "),
    ("name: toy", "name: 2024", "needs quotes"),
    (
        "question: What does depth change?",
        "question: [what]",
        "s.yaml:3: question: found [what]; must be text: quote it",
    ),
    ("protocol: ramp", "protocol: bracket", "s.yaml:4: protocol: found bracket; must be one of ramp, grid"),
    ("protocol: ramp", "protocol: annealing", "s.yaml:4: protocol: found annealing; must be one of ramp, grid, search"),
    ("protocol: ramp", "protocol: rampe", "(did you mean ramp?)"),
    ("model:", "Model:", "(did you mean model?)"),
    ("width: 32", "widht: 32", "s.yaml:11: model.widht: found an unknown key; allowed here: width, heads, kv_heads"),
    ("width: 32", "widht: 32", "(did you mean width?)"),
    ("width: 32", "lr: 32", "(did you mean grid.lr?)"),
    ("batch_size: 8", "width: 8", "(did you mean model.width?)"),
    ("width: 32", "width: '32'", 's.yaml:11: model.width: found "32" (a string); must be an integer of at least 2'),
    ("width: 32", "width: '32'", "(did you mean 32?)"),
    (
        "width: 32",
        "width: 3_2",
        "model.width: found 3_2 (a string); must be an integer of at least 2 (did you mean 32?)",
    ),
    ("width: 32", "width: 32.0", "model.width: found 32.0; must be an integer of at least 2 (did you mean 32?)"),
    ("width: 32", "width: true", "model.width: found true (a boolean); must be an integer of at least 2"),
    ("width: 32", "width: 1", "model.width: found 1; must be an integer of at least 2"),
    ("width: 32", "width: 99999999999999999999", "of at least 2 and of at most 9007199254740992"),
    ("context: 32", "context: 1", "s.yaml:11: model.context: found 1; must be an integer of at least 2"),
    ("width: 32", "width: [32, 36]", f"model.width: found 36; must be a multiple of 8 with 4 heads {EVEN}"),
    ("heads: 4,", "heads: 6,", f"model.heads: found 6; must be one of 1, 2, 4, 8, 16 at width 32 {EVEN}"),
    ("heads: 4,", "heads: 32,", f"model.heads: found 32; must be one of 1, 2, 4, 8, 16 at width 32 {EVEN}"),
    ("kv_heads: 2", "kv_heads: 3", "model.kv_heads: found 3; must divide heads (4): one of 1, 2, 4"),
    ("batch_size: 8", "batch_size: 8, accumulate: 3", "train.accumulate: found 3; must divide batch_size (8)"),
    ("betas: [0.9, 0.95]", "betas: 0.9", "s.yaml:13: train.betas: found 0.9; must be a list of two"),
    ("betas: [0.9, 0.95]", "betas: [0.9, 1.0]", "train.betas: found [0.9, 1.0]; must be a list of two"),
    ("clip_norm: 1.0", "clip_norm: null", "train.clip_norm: found nothing; must be a number above 0, or off"),
    ("clip_norm: 1.0", "clip_norm: null", "(did you mean off?)"),
    ("eps: 1e-8", "eps: .nan", "train.eps: found .nan; must be a number above 0"),
    ("eps: 1e-8", "eps: 1e999", "train.eps: found 1e999; must be a number above 0"),
    ("weight_decay: 0.01", "weight_decay: -1", "train.weight_decay: found -1; must be a number of at least 0"),
    ("precision: fp32", "precision: fp16", "s.yaml:14: train.precision: found fp16; must be one of fp32, bf16"),
    ("skip_nonfinite: false", "skip_nonfinite: no", "must be true or false (did you mean false?)"),
    (
        "optimizer: adamw",
        "optimizer: adam",
        "train.optimizer: found adam; must be one of adamw, sgd, lion, muon (did you mean adamw?)",
    ),
    ("peak_lr: 0.1", "peak_lr: 0", "s.yaml:15: ramp.peak_lr: found 0; must be a number above 0"),
    ("peak_lr: 0.1", "peak_lr: -0.1", "ramp.peak_lr: found -0.1; must be a number above 0"),
    ("peak_lr: 0.1", "peak_lr: 1e-5", "ramp.peak_lr: found 1e-5; must be above from_lr (1e-4): a ramp only rises"),
    ("from_lr: 1e-4", "from_lr: 0", "ramp.from_lr: found 0; a log ramp cannot start at 0"),
    ("peak_lr: 0.1", "peak_lr: 1e308", "ramp.peak_lr: found 1e308; peak_lr / from_lr must be a finite number"),
    ("steps: 600", "steps: 1", "ramp.steps: found 1; must be an integer of at least 2"),
    ("steps: 600", "steps: 6e2", "ramp.steps: found 6e2; must be an integer of at least 2 (did you mean 600?)"),
    ("steps: 600", "preset: papr", "ramp.preset: found papr; must be one of paper (did you mean paper?)"),
    (
        "steps: 600",
        "kind: grid",
        "ramp.kind: found an unknown key; allowed here: shape, from_lr, peak_lr, steps, preset",
    ),
    ("ramp:  {", "schedule: {steps: 5}\nramp: {", "s.yaml:15: schedule: found a section of protocol grid; "),
    ("divergence: {}", "divergence: {confirm: 5}", "(did you mean confirm_samples?)"),
    ("divergence: {}", "divergence: {alarm_sigma: [1, 2]}", "it cannot vary: thresholds are no part of a trial"),
    (
        "divergence: {}",
        "divergence: 5",
        "s.yaml:17: divergence: found 5; divergence holds keys: write divergence: {key: value}",
    ),
    ("memory: 2GiB", "memory: 2", "s.yaml:18: resources.memory: found 2; must be an amount such as 2GiB"),
    ("cpus: 1", "cpus: [1, 2]", "resources.cpus: found [1, 2]; must be an integer of at least 1; it cannot vary"),
    ("gpus: 0", "gpus: -1", "resources.gpus: found -1; must be a number of at least 0"),
    ("wall_time: null", "wall_time: soon", "s.yaml:19: budget.wall_time: found soon; must be a time such as 90m"),
    ("trials: null", "trials: 0", "budget.trials: found 0; must be an integer of at least 1, or null"),
    ("corpus: stdlib", "corpus: wiki", "s.yaml:12: data.corpus: found wiki; must be stdlib"),
    ("corpus: stdlib", "corpus: stdlib, text: x", "s.yaml:12: data.text: found text beside corpus; "),
    ("corpus: stdlib", "text: ''", 's.yaml:12: data.text: found ""; must be text'),
    ("tokenizer: bytes", "tokenizer: bpe", "data.tokenizer: found bpe; must be bytes"),
    ("  seed: [0, 1, 2]\n", "  seed: [0, 1, 2]\n  lr: 1e-3\n", "s.yaml:9: grid.lr: found an axis of protocol grid; "),
    ("seed: [0, 1, 2]", "seed: []", "s.yaml:8: grid.seed: found an empty list; an axis needs at least one value"),
    ("seed: [0, 1, 2]", "seed: [0, 1.5]", "s.yaml:8: grid.seed: found 1.5; must be an integer of at least 0"),
    ("seed: [0, 1, 2]", "seed: [-1]", "s.yaml:8: grid.seed: found -1; must be an integer of at least 0"),
    ("seed: [0, 1, 2]", "seed: 0\n  init_seed: 1", "s.yaml:9: grid.init_seed: found init_seed beside seed; "),
    ("seed: [0, 1, 2]", "seeds: [0]", "s.yaml:8: grid.seeds: found an unknown axis; "),
    ("seed: [0, 1, 2]", "seeds: [0]", "(did you mean seed?)"),
    ("seed: [0, 1, 2]", "blocks: 3", "s.yaml:8: grid.blocks: found an unknown axis; write depth: {blocks: 3}"),
    (
        "seed: [0, 1, 2]",
        "fraction: [0.1]",
        "found an axis that no architecture of this sweep uses; post_ln has no options",
    ),
    ("seed: [0, 1, 2]", "steps: 9\n  ramp.steps: 8", "s.yaml:9: grid.ramp.steps: found a second time; "),
    ("seed: [0, 1, 2]", "width: 64", "s.yaml:8: grid.width: found 64; model.width says 32: keep one of the two"),
    ("seed: [0, 1, 2]", "alpha: [1, L]", "s.yaml:8: grid.alpha: found [1, L]; per_architecture.keel.alpha sets it too"),
    ("depth: {blocks: [4, 8]}", "depth: 16", f"s.yaml:7: grid.depth: found 16; {DEPTH}"),
    ("depth: {blocks: [4, 8]}", "depth: [16, 32]", f"s.yaml:7: grid.depth: found [16, 32]; {DEPTH}"),
    ("depth: {blocks: [4, 8]}", "depth: {}", f"s.yaml:7: grid.depth: found {{}}; {DEPTH}"),
    (
        "  depth: {blocks: [4, 8]}\n",
        "",
        "s.yaml:5: grid.depth: found nothing; required under grid: depth: {blocks: [16]}",
    ),
    (
        "blocks: [4, 8]",
        "layers: [4]",
        "s.yaml:7: grid.depth.layers: found an unknown key; allowed here: blocks or sublayers",
    ),
    ("blocks: [4, 8]", "sublayers: [7]", "s.yaml:7: grid.depth.sublayers: found 7; a block is two sub-layers"),
    (
        "blocks: [4, 8]",
        "blocks: 4, sublayers: 8",
        "s.yaml:7: grid.depth: found blocks and sublayers; give one of the two",
    ),
    ("blocks: [4, 8]", "blocks: 0", "s.yaml:7: grid.depth.blocks: found 0; must be an integer of at least 1"),
    (
        "post_ln, pre_ln, keel]",
        "kel]",
        f"s.yaml:6: grid.architecture: found kel; must be one of {NAMES}, or package.module",
    ),
    ("post_ln, pre_ln, keel]", "kel]", "(did you mean keel?)"),
    ("post_ln, pre_ln, keel]", "Pre-LN]", "(did you mean pre_ln?)"),
    ("post_ln, pre_ln, keel]", "3]", "s.yaml:6: grid.architecture: found 3 (a number); must be one of"),
    (
        "keel: {alpha: L}",
        "kel: {alpha: L}",
        "s.yaml:10: per_architecture.kel: found an unknown architecture; must be one of",
    ),
    (
        "keel: {alpha: L}",
        "keel: {alhpa: L}",
        f"per_architecture.keel.alhpa: found an unknown option; {KEEL} (did you mean alpha?)",
    ),
    (
        "keel: {alpha: L}",
        "pre_ln: {alpha: L}",
        "per_architecture.pre_ln.alpha: found an unknown option; pre_ln has no options",
    ),
    ("keel: {alpha: L}", "keel: 3", f"per_architecture.keel: found 3; must be {{option: value}}; {KEEL}"),
    (
        "alpha: L",
        "alpha: l",
        f"s.yaml:10: per_architecture.keel.alpha: found l; 'l' has no place in a rule; {RULE} (did you mean L?)",
    ),
    ("alpha: L", "alpha: L+1", "per_architecture.keel.alpha: found L+1; '+' has no place in a rule"),
    ("alpha: L", "alpha: 0", "s.yaml:10: per_architecture.keel.alpha: found 0; must be a number above 0"),
    ("alpha: L", "alpha: 0L", "found 0L; is 0 at L = 8 sub-layers; must be a number above 0"),
    ("alpha: L", "alpha: L^999", "found L^999; has no finite value at L = 8"),
    ("alpha: L", "alpha: true", "per_architecture.keel.alpha: found true (a boolean); must be a number, or a rule"),
    ("alpha: L", "final_norm: yes", "per_architecture.keel.final_norm: found yes (a string); must be true or false"),
    (
        "alpha: L",
        "first: bear",
        "per_architecture.keel.first: found bear; must be one of bare, normed (did you mean bare?)",
    ),
    (
        "keel: {alpha: L}",
        "mix_ln: {fraction: 2}",
        "per_architecture.mix_ln.fraction: found 2; must be a number of at least 0",
    ),
    (
        "name: toy",
        "name: toy\nname: toy",
        "s.yaml:3: name: found a second time (first at line 2); each key is given once",
    ),
]

GRID_CASES = [
    (
        "lr: [1e-3, 3e-3], ",
        "",
        "s.yaml:4: grid.lr: found nothing; protocol grid needs learning rates under grid: lr: [1e-3",
    ),
    ("warmup: 10%", "warmup: 1", "s.yaml:5: schedule.warmup: found 1; must be a percentage"),
    ("warmup: 10%", "warmup: 1.0", "a bare number could be steps or a fraction"),
    ("warmup: 10%", "warmup: 0.1", "a bare number could be steps or a fraction"),
    (
        "warmup: 10%",
        "warmup_steps: 10%",
        "schedule.warmup_steps: found 10% (a string); must be an integer of at least 0",
    ),
    ("warmup: 10%", "warmup_steps: 600", "schedule.warmup_steps: found 600; warm-up takes 600 of 600 steps"),
    ("warmup: 10%", "warmup: 99.99%", "schedule.warmup: found 99.99%; warm-up takes 600 of 600 steps"),
    ("warmup: 10%", "warmup: 10%, warmup_steps: 6", "schedule.warmup: found warmup beside schedule.warmup_steps"),
    ("warmup: 10%, ", "", None),
    ("steps: 600, warmup: 10%", "steps: 50", "schedule.steps: found 50; must be above the 60 steps of warm-up"),
    (
        "final_lr: 1e-7",
        "final_lr: 2e-3",
        "s.yaml:4: grid.lr: found 1e-3; must be at least final_lr (0.002), to which the cosine falls",
    ),
    ("schedule:", "ramp:", "s.yaml:5: ramp: found a section of protocol ramp; protocol grid has schedule instead"),
    ("shape: cosine", "shape: linear", "schedule.shape: found linear; must be one of cosine, constant"),
    ("lr: [1e-3, 3e-3]", "lr: [0]", "s.yaml:4: grid.lr: found 0; must be a number above 0"),
]


@pytest.mark.parametrize(("old", "new", "says"), RAMP_CASES)
def test_wrong_ramp_sweeps(read: Reader, good: str, old: str, new: str, says: str) -> None:
    assert good.count(old) == 1
    with pytest.raises(SpecError) as caught:
        read(good.replace(old, new))
    assert any(says in line for line in str(caught.value).splitlines()), str(caught.value)
    assert len(caught.value.problems) <= 2, str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("old", "new", "says"), GRID_CASES)
def test_wrong_grid_sweeps(read: Reader, grid_text: str, old: str, new: str, says: str | None) -> None:
    assert grid_text.count(old) == 1
    if says is None:
        read(grid_text.replace(old, new))
        return
    with pytest.raises(SpecError) as caught:
        read(grid_text.replace(old, new))
    assert says in str(caught.value)


def test_all_problems_come_at_once_from_the_top_of_the_file_down(read: Reader, good: str) -> None:
    wrong = good.replace("schema: 1", "schema: 7").replace("[post_ln, pre_ln, keel]", "[post_ln, kel]")
    wrong = wrong.replace("seed: [0, 1, 2]", "seed: [0, 0]").replace("heads: 4,", "heads: 5,").replace("0.1,", "0,")
    with pytest.raises(SpecError) as caught:
        read(wrong, "train.eps=0")
    assert [(problem.place, problem.key) for problem in caught.value.problems] == [
        ("s.yaml:1", "schema"),
        ("s.yaml:6", "grid.architecture"),
        ("s.yaml:8", "grid.seed"),
        ("s.yaml:11", "model.heads"),
        ("s.yaml:11", "model.kv_heads"),
        ("s.yaml:15", "ramp.peak_lr"),
        ("command line: train.eps=0", "train.eps"),
    ]


def test_a_problem_of_many_combinations_is_named_once(read: Reader, good: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(good.replace("seed: [0, 1, 2]", "width: [32, 64, 96]\n  heads: [4, 5]\n  kv_heads: 1"))
    assert [(problem.place, problem.key, problem.found) for problem in caught.value.problems] == [
        ("s.yaml:9", "grid.heads", "5"),
        ("s.yaml:10", "grid.kv_heads", "1"),
    ]


def test_a_sweep_too_large_to_plan_is_refused(read: Reader, good: str) -> None:
    with pytest.raises(SpecError, match="at most 100000"):
        read(good, "grid.seed={linear: [0, 999, 1000]}", "ramp.steps={linear: [100, 1099, 1000]}")


@pytest.mark.parametrize(
    ("text", "says"), [("", "an empty file"), ("# nothing\n", "an empty file"), ("- a", r"found \[a\]")]
)
def test_a_file_that_is_no_mapping_says_so(read: Reader, text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        read(text)


def test_an_almost_empty_file_hears_all_that_it_lacks(read: Reader) -> None:
    with pytest.raises(SpecError) as caught:
        read("question: what?\n")
    assert {problem.key for problem in caught.value.problems} == {
        "schema",
        "name",
        "protocol",
        "grid.architecture",
        "grid.depth",
    }


def test_files_that_cannot_be_read(tmp_path: Path, catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(tmp_path / "none.yaml", [], catalogue)
    with pytest.raises(UsageError, match="a folder"):
        load(tmp_path, [], catalogue)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"schema: 1\nname: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin.yaml:2: .*UTF-8"):
        load(latin, [], catalogue)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 5_000_000)
    with pytest.raises(UsageError, match="at most"):
        load(large, [], catalogue)


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(
    tmp_path: Path, catalogue: Catalogue, good: str
) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + good.replace("\n", "\r\n").encode())
    spec = load(path, [], catalogue)
    assert (spec.name, spec.folder) == ("toy", tmp_path)
