"""The wirings, the attention and the closed forms against the reference vectors, through the classes that train.

KEEL_VECTORS names other files of the same form (os.pathsep-separated). A file may hold only some of the cases, but none
that is not known here: what is not checked is said, and why.
"""

import json
import os
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from keel_lab.settings import ModelSettings
from tests.trainers.schemes import built, options
from trainers.attention import Attention, Rotary
from trainers.catalogue import CATALOGUE
from trainers.initialisation import init_gains
from trainers.model import Transformer
from trainers.residual import Architecture, BranchOptions, ResidualStack

SHIPPED = str(Path(__file__).parents[1] / "data" / "vectors.json")
FILES = (os.environ.get("KEEL_VECTORS") or SHIPPED).split(os.pathsep)

WIRINGS = {
    "pre_ln": ("pre_ln", {}),
    "post_ln": ("post_ln", {}),
    "post_ln+final": ("post_ln", {"final_norm": True}),
    "deepnorm": ("deepnorm", {}),
    "deepnorm_keelpaper": ("deepnorm", {"beta": "keel_paper"}),
    "hybridnorm": ("hybridnorm", {}),
    "hybridnorm_star": ("hybridnorm_star", {}),
    "mix_ln": ("mix_ln", {}),
    "keel": ("keel", {}),
    "keel+final": ("keel", {"final_norm": True}),
    "keel_noexempt": ("keel", {"exemption": False}),
    "keel_attempt1": ("keel_attempt1", {}),
    "keel_attempt1_noexempt": ("keel_attempt1", {"exemption": False}),
    "keel_attempt2": ("keel_attempt2", {}),
    "keel_attempt2_noexempt": ("keel_attempt2", {"exemption": False}),
    "keel_attempt3": ("keel_attempt3", {}),
    "keel_attempt3_noexempt": ("keel_attempt3", {"exemption": False}),
    "x_sandwich": ("sandwich_ln", {}),
    "x_peri": ("peri_ln", {}),
    "x_lns": ("layernorm_scaling", {}),
    "x_residual_dual": ("residual_dual", {}),
    "x_rezero": ("rezero", {}),
    "x_highway": ("highway", {}),
    "x_admin": ("admin", {}),
}

# the parameters of a step by their name in the file; None: profiled, not given
GIVEN = {
    "pre.gain": "pre",
    "mid.gain": "mid",
    "post.gain": "post",
    "pre.factor": "beta",
    "pre.1.factor": "beta",
    "mid.factor": "gate",
    "skip.factor": None,
    "transform": "WT",
    "bias": "bT",
}


def shipped(name: str, blocks: int, changes: dict) -> tuple[Architecture, dict]:
    return built(name, blocks, **changes), options(name, blocks, **changes)


# --- the files ---


@cache
def read(file: str) -> dict:
    return json.loads(Path(file).read_text())


def sections(file: str, *path: str) -> list[str]:
    """Keys of a section; none if there is no such file, which `test_each_file_is_there` reports."""
    found = read(file) if Path(file).is_file() else {}
    for part in path:
        found = found.get(part, {})
    return list(found)


def f64(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def equal(found, wanted, what: str) -> None:
    wanted = wanted if isinstance(wanted, torch.Tensor) else f64(wanted)
    found = found.detach() if isinstance(found, torch.Tensor) else f64(found)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-13, msg=lambda text: f"{what}: {text}")


CASES = [(f, c) for f in FILES for c in sections(f, "cases")]  # one that is not known fails
DEPTHS = [(f, d) for f in FILES for d in sections(f, "analytic_unit_branch")]
GAINS = [(f, d) for f in FILES for d in sections(f, "init_multipliers")]
ATTENTION = [(f, k) for f in FILES for k in sections(f, "attention") if k.startswith("out_")]
COUNTS = [(f, n) for f in FILES for n in sections(f, "param_counts", "extra")]


@pytest.mark.parametrize("file", FILES)
def test_each_file_is_there(file):
    assert Path(file).is_file(), f"KEEL_VECTORS names {file!r}, which is no file"
    assert file in {f for f, _ in CASES + DEPTHS + GAINS + ATTENTION + COUNTS}, f"{file!r} holds nothing to check"


def test_every_case_that_ships_is_known_and_the_other_way_round():
    assert set(sections(SHIPPED, "cases")) == set(WIRINGS)


def test_an_unknown_case_fails():
    with pytest.raises(KeyError, match="x_new"):
        check_wiring(read(SHIPPED), "x_new", {})


class Toy(nn.Module):
    """The branch of the vectors; `cut` keeps gradients from passing through it."""

    def __init__(self, weight, scale):
        super().__init__()
        self.weight, self.scale, self.cut = nn.Parameter(weight), scale, False

    def forward(self, u):
        out = torch.tanh(u @ (self.scale * self.weight).T)
        return out.detach() if self.cut else out


def fill(stack: ResidualStack, inputs: dict) -> list[dict[str, nn.Parameter]]:
    """Loads what the file gives; returns the parameters of each step by their name in the file."""
    found = []
    with torch.no_grad():
        for index, step in enumerate(stack.steps):
            names = {GIVEN[name] or "omega": parameter for name, parameter in step.named_parameters()}
            for name, parameter in names.items():
                if name != "omega":
                    parameter.copy_(f64(inputs[name][index]))
            found.append(names)
        for part, name in ((stack.enter, "emb"), (stack.exit, "final")):
            for parameter in part.parameters() if part else ():
                parameter.copy_(f64(inputs[name]))
    return found


def x_stream(state: torch.Tensor, x0: torch.Tensor) -> torch.Tensor:
    return state[0] if state.ndim > x0.ndim else state


@pytest.mark.parametrize(("file", "case"), CASES)
def test_wiring(file, case):
    data = read(file)
    check_wiring(data, case, data["cases"][case])


def check_wiring(data, case, wanted):
    meta, inputs = data["meta"], data["inputs"]
    name, changes = WIRINGS[case]
    architecture, given = shipped(name, meta["blocks"], changes)
    if "beta" in given:
        equal(given["beta"], wanted["w_scale"], "w_scale")
    toys = [Toy(f64(w), wanted["w_scale"]) for w in inputs["W"]]
    stack = ResidualStack(architecture, toys, meta["d"], meta["eps"]).double()
    steps = fill(stack, inputs)
    x0 = f64(inputs["x0"]).requires_grad_()
    if "omega" in wanted:
        with torch.no_grad():
            architecture.calibrate(stack, x0)
        equal(torch.stack([step["omega"][0] for step in steps]), wanted["omega"], "omega")

    states: list[torch.Tensor] = []
    out = stack(x0, states)
    for state in states:
        state.retain_grad()
    loss = (out * f64(inputs["C"])).sum()
    loss.backward()

    equal(out, wanted["out"], "out")
    equal(loss, wanted["loss"], "loss")
    flat = [x_stream(state, x0) for state in states]
    equal(torch.stack(flat), wanted["states"], "states")
    equal(torch.stack([s.square().mean().sqrt() for s in flat]), wanted["state_rms"], "state_rms")
    equal(x0.grad, wanted["grad_x0"], "grad_x0")
    equal(state_gradients(states, x0), wanted["grad_state_norm"], "grad_state_norm")
    equal(torch.stack([toy.weight.grad.norm() for toy in toys]), wanted["grad_W_norm"], "grad_W_norm")
    for kind in ("pre", "post", "mid", "beta"):
        norms = [step[kind].grad.norm() if kind in step else f64(0.0) for step in steps]
        equal(torch.stack(norms), wanted[f"grad_{kind}_norm"], f"grad_{kind}_norm")
    final = [p.grad.norm() for p in (stack.exit.parameters() if stack.exit else ())] or [f64(0.0)]
    equal(final[0], wanted["grad_final_norm"], "grad_final_norm")

    equal(skip_gradients(stack, x0, f64(inputs["C"])), wanted["grad_state_norm_skip_only"], "grad_state_norm_skip_only")


def state_gradients(states, x0):
    """Norms of the gradients at x0, x1, .. x_L; the first counts both streams where there are two, as x0 feeds both."""
    gradients = [s.grad if s.grad is not None else torch.zeros_like(s) for s in states]
    first = gradients[0].sum(0) if gradients[0].ndim > x0.ndim else gradients[0]
    return torch.stack([first.norm(), *(x_stream(g, x0).norm() for g in gradients[1:])])


def skip_gradients(stack, x0, cotangent):
    for toy in stack.branches:
        toy.cut = True
    x0 = x0.detach().clone().requires_grad_()  # the first state may be x0 itself, whose gradient would add up
    states: list[torch.Tensor] = []
    out = stack(x0, states)
    for state in states:
        state.retain_grad()
    (out * cotangent).sum().backward()
    return state_gradients(states, x0)


@pytest.mark.parametrize(("file", "key"), ATTENTION)
def test_attention(file, key):
    data = read(file)["attention"]
    weights = data["weights"]
    x = f64(weights["x"])
    head_norm = {"out_plain": "none", "out_qk_norm": "qk", "out_qkv_norm": "qkv"}[key]
    eps = data.get("eps", read(file)["meta"]["eps"])
    shape = ModelSettings(width=x.shape[-1], heads=data["n_heads"], kv_heads=data["n_kv_heads"], norm_eps=eps)
    assert shape.width == data["n_heads"] * data["d_head"]
    rotary = Rotary(data["d_head"], x.shape[0], data["rope_theta"], dtype=torch.float64)
    attention = Attention(shape, rotary, BranchOptions(head_norm)).double()
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            kind = "w" + name if len(name) == 1 else "g" + name[0]
            parameter.copy_(f64(weights[kind]))
    equal(attention(x), data[key], key)
    equal(attention(x.expand(3, *x.shape))[2], data[key], f"{key}, in a batch")


class UnitBranch(nn.Module):
    """A branch of fixed variance and zero mean, orthogonal to all before it: means of squares then add exactly."""

    def __init__(self, width, index, strength):
        super().__init__()
        self.index, self.value = index + 1, strength * width**0.5

    def forward(self, u):
        out = torch.zeros_like(u)
        out[0, self.index], out[1, self.index] = self.value, -self.value
        return out


ANALYTIC = {
    "post_ln": ("post_ln", {}, None),
    "keel": ("keel", {"exemption": False}, None),
    "keel_with_exemption": ("keel", {}, None),
    "deepnorm_unit_branch": ("deepnorm", {}, None),
    "deepnorm_init_branch": ("deepnorm", {}, "beta"),
    "deepnorm_keelpaper_init_branch": ("deepnorm", {"beta": "keel_paper"}, "beta"),
    "pre_ln": ("pre_ln", {}, None),
    "hybridnorm": ("hybridnorm", {}, None),
    "mix_ln_025": ("mix_ln", {}, None),
    "admin": ("admin", {}, None),
}
CONSTANTS = {"alpha_deepnet", "alpha_keelpaper_deepnorm", "beta_deepnet", "beta_keelpaper"}  # see the next test


@pytest.mark.parametrize(("file", "depth"), DEPTHS)
def test_skip_path_of_unit_branches(file, depth):
    """What is left of x0 in the last state when branches have unit variance (beta^4 of it where init shrinks them)."""
    wanted, sublayers = read(file)["analytic_unit_branch"][depth], int(depth)
    assert {key.removesuffix("_stream_var") for key in wanted} <= {*ANALYTIC, *CONSTANTS}
    for key, (name, changes, shrink) in ANALYTIC.items():
        if key not in wanted:
            continue
        architecture, given = shipped(name, sublayers // 2, changes)
        strength = given[shrink] ** 2 if shrink else 1.0
        width = sublayers + 1
        branches = [UnitBranch(width, index, strength) for index in range(sublayers)]
        stack = ResidualStack(architecture, branches, width, eps=0.0).double()
        x0 = torch.zeros(2, width, dtype=torch.float64)
        x0[0, 0], x0[1, 0] = width**0.5, -(width**0.5)
        states: list[torch.Tensor] = []
        with torch.no_grad():
            if architecture.calibrate:
                architecture.calibrate(stack, x0)
            stack(x0, states)
        torch.testing.assert_close(float(states[-1][0, 0] / x0[0, 0]), wanted[key], rtol=1e-9, atol=0.0)
        if f"{key}_stream_var" in wanted:
            equal(states[-1].square().mean(), wanted[f"{key}_stream_var"], f"{key}_stream_var")


@pytest.mark.parametrize(("file", "depth"), DEPTHS)
def test_constants_of_deepnorm(file, depth):
    wanted, blocks = read(file)["analytic_unit_branch"][depth], int(depth) // 2
    source, paper = (shipped("deepnorm", blocks, changes)[1] for changes in ({}, {"beta": "L^-0.25"}))
    equal(source["alpha"], wanted["alpha_deepnet"], "alpha")
    equal(paper["alpha"], wanted["alpha_keelpaper_deepnorm"], "alpha of the Keel paper")
    equal(source["beta"], wanted["beta_deepnet"], "beta")
    equal(paper["beta"], wanted["beta_keelpaper"], "beta of the Keel paper")


@pytest.mark.parametrize(("file", "blocks"), GAINS)
def test_init_multipliers(file, blocks):
    """HybridNorm's authors shrink o and down, which is `init_std: depth_scaled` with any architecture."""
    wanted = read(file)["init_multipliers"][blocks]
    variants = {"deepnorm_deepnet": {}, "deepnorm_keelpaper": {"beta": "keel_paper"}}
    assert set(wanted) == {*variants, "hybridnorm_official_repo", "all_others"}
    for key, changes in variants.items():
        assert shipped("deepnorm", int(blocks), changes)[0].init_gain == pytest.approx(wanted[key], rel=1e-9, abs=0.0)
    for name in {name for name, _ in WIRINGS.values()} - {"deepnorm"}:
        assert shipped(name, int(blocks), {})[0].init_gain == wanted["all_others"]
    depth_scaled = init_gains(ModelSettings(init_std="depth_scaled"), 2 * int(blocks), {})
    assert depth_scaled == pytest.approx(wanted["hybridnorm_official_repo"], rel=1e-9, abs=0.0)


COUNTED = {
    "keel_attempt1": ("keel_attempt1", {"exemption": False}),
    "keel_attempt2": ("keel_attempt2", {"exemption": False}),
    "keel_attempt3_gainfree_ln": ("keel_attempt3", {"exemption": False}),
    "x_sandwich": ("sandwich_ln", {}),
    "x_peri": ("peri_ln", {}),
    "x_lns": ("layernorm_scaling", {}),
    "x_residual_dual": ("residual_dual", {}),
    "x_rezero_per_sublayer": ("rezero", {}),
    "x_highway_dense_gate": ("highway", {}),
}
NOT_OURS = {
    "x_rezero_repo_per_block": "one gate a block, as in its authors' code; ours is their paper's, one a sub-layer",
    "x_gpas_repo": "a scheme that is not among DESIGN section 5's",
    "x_siamese": "a scheme that is not among DESIGN section 5's",
}


@pytest.mark.parametrize(("file", "case"), [(f, n) for f, n in COUNTS if n not in NOT_OURS])
def test_parameter_counts(file, case):
    counts = read(file)["param_counts"]
    config = counts["config"]
    name, changes = COUNTED.get(case, (case, {}))
    shape = ModelSettings(
        width=config["d"], heads=config["n_heads"], kv_heads=config["n_kv"], ffn_width=config["d_ff"], context=8
    )
    assert shape.width == config["n_heads"] * config["d_head"]
    architecture, given = shipped(name, config["blocks"], changes)
    with torch.device("meta"):
        model = Transformer(shape, config["blocks"], 256, architecture)
    total = sum(p.numel() for p in model.parameters())
    core = total - model.embedding.numel() - model.head.numel() - counts["extra"][case]
    assert core == counts["core_excluding_embeddings"]
    assert CATALOGUE.parameters(name, shape, config["blocks"], given, vocab=256) == total
