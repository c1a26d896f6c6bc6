"""A catalogue without trainers, so that the sweep file and the plan are tested on their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from keel_lab.architecture import CorpusFacts, Declaration, Option
from keel_lab.settings import ModelSettings
from keel_lab.spec import SweepSpec, parse

GOOD = """\
schema: 1
name: toy
question: What does depth change?
protocol: ramp
grid:
  architecture: [post_ln, pre_ln, keel]
  depth: {blocks: [4, 8]}
  seed: [0, 1, 2]
per_architecture:
  keel: {alpha: L}
model: {width: 32, heads: 4, kv_heads: 2, ffn_width: 96, ffn: swiglu, context: 32, init_std: 0.02}
data:  {corpus: stdlib, tokenizer: bytes}
train: {batch_size: 8, optimizer: adamw, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.01, clip_norm: 1.0,
        precision: fp32, skip_nonfinite: false}
ramp:  {shape: log, from_lr: 1e-4, peak_lr: 0.1, steps: 600}
siblings: {reference: false}
divergence: {}
resources: {cpus: 1, gpus: 0, memory: 2GiB}
budget: {max_concurrent: null, wall_time: null, trials: null}
"""

GRID = """\
schema: 1
name: toy_grid
protocol: grid
grid: {architecture: [pre_ln, keel], depth: {blocks: [4]}, lr: [1e-3, 3e-3], seed: [0, 1]}
schedule: {shape: cosine, steps: 600, warmup: 10%, final_lr: 1e-7}
"""

_OPTIONS = {
    "post_ln": {},
    "pre_ln": {},
    "mix_ln": {"fraction": Option("number", 0.25, "share of post_ln blocks", low=0.0, high=1.0)},
    "keel": {
        "alpha": Option("rule", "L", "factor on the residual stream", low=0.0, open_low=True),
        "final_norm": Option("flag", False, "a norm before the head"),
        "first": Option("choice", "bare", "the first block", choices=("bare", "normed")),
    },
}


class ToyCatalogue:
    def names(self) -> tuple[str, ...]:
        return tuple(_OPTIONS)

    def declaration(self, name: str) -> Declaration:
        return Declaration(name, name, "nowhere", lambda model, blocks, options: 0, _OPTIONS[name])

    def parameters(
        self, architecture: str, model: ModelSettings, blocks: int, options: Mapping[str, Any], vocab: int
    ) -> int:
        return vocab * model.width + blocks * model.width**2 + len(options)

    def corpus(self, data: Mapping[str, Any], folder: Path) -> CorpusFacts:
        raise AssertionError("reading and planning never open the corpus")

    def prepare(self, data: Mapping[str, Any], folder: Path, facts: CorpusFacts, destination: Path) -> None:
        raise AssertionError("reading and planning never open the corpus")


@pytest.fixture
def catalogue() -> ToyCatalogue:
    return ToyCatalogue()


@pytest.fixture
def facts() -> CorpusFacts:
    return CorpusFacts(fingerprint="f" * 64, tokens=1_000_000, vocab=256, tokenizer="bytes", source="stdlib")


@pytest.fixture
def good() -> str:
    """A valid ramp sweep in the form of DESIGN section 4."""
    return GOOD


@pytest.fixture
def grid_text() -> str:
    """A valid grid sweep."""
    return GRID


@pytest.fixture
def read(catalogue: ToyCatalogue) -> Callable[..., SweepSpec]:
    """`read(text, *overrides)` checks a sweep named `s.yaml`."""

    def reader(text: str, *overrides: str) -> SweepSpec:
        return parse(text, "s.yaml", Path("/sweeps"), list(overrides), catalogue)

    return reader
