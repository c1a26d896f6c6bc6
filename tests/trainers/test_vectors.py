"""The wirings, the attention and the closed forms against the reference vectors, through the classes that train.

KEEL_VECTORS names other files of the same form (os.pathsep-separated); a file may hold only some of the cases.
"""

import json
import os
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from keel_lab.settings import ModelSettings
from keel_lab.spec.rule import resolve
from trainers import architectures
from trainers.attention import Attention, Rotary
from trainers.catalogue import CATALOGUE
from trainers.model import Transformer
from trainers.norm import RMSNorm
from trainers.residual import Affine, Architecture, BranchOptions, ResidualStack, final_norm

SHIPPED = str(Path(__file__).parents[1] / "data" / "vectors.json")
FILES = (os.environ.get("KEEL_VECTORS") or SHIPPED).split(os.pathsep)

SHIPPED = {
    "pre_ln": ("pre_ln", {}),
    "post_ln": ("post_ln", {}),
    "post_ln+final": ("post_ln", {"final_norm": True}),
    "deepnorm": ("deepnorm", {}),
    "deepnorm_keelpaper": ("deepnorm", {"beta": "L^-0.25"}),
    "hybridnorm": ("hybridnorm", {}),
    "mix_ln": ("mix_ln", {}),
    "keel": ("keel", {}),
    "keel+final": ("keel", {"final_norm": True}),
    "keel_noexempt": ("keel", {"exemption": False}),
}


def shipped(name: str, blocks: int, changes: dict) -> tuple[Architecture, dict]:
    scheme = architectures.find(name)
    options = {key: option.default for key, option in scheme.DECLARATION.options.items()} | changes
    options = {k: v if isinstance(v, bool) else resolve(v, 2 * blocks) for k, v in options.items()}
    return scheme.build(blocks, options), options


# --- wirings that do not ship yet, written as a user would: they hold the places of `Architecture` to the vectors ---


class Vector(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.beta * x


class PeriStep(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.pre, self.mid = RMSNorm(width, eps), RMSNorm(width, eps)

    def forward(self, x, branch):
        return x + self.mid(branch(self.pre(x)))


class DualStep(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.post = RMSNorm(width, eps)

    def forward(self, stream, branch):
        out = branch(stream[0])
        return torch.stack((self.post(stream[0] + out), stream[1] + out))


class Both(nn.Module):
    def __init__(self, width, eps):
        super().__init__()

    def forward(self, x):
        return torch.stack((x, x))


class JoinDual(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.final = RMSNorm(width, eps)

    def forward(self, stream):
        return stream[0] + self.final(stream[1])


class AdminStep(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.omega, self.post = nn.Parameter(torch.ones(width)), RMSNorm(width, eps)

    def forward(self, x, branch):
        return self.post(self.omega * x + branch(x))


@torch.no_grad()
def profile(stack, x):
    omega = 1.0
    for step, branch in zip(stack.steps, stack.branches, strict=True):
        step.omega.fill_(omega)
        omega = float(((omega * x).var(correction=0) + branch(x).var(correction=0)).sqrt())
        x = step(x, branch)


def own(case: str) -> Architecture:
    return {
        "x_lns": Architecture(lambda s: Affine(pre=RMSNorm, scale=(s.block + 1) ** -0.5), exit=final_norm(True)),
        "keel_attempt2_noexempt": Architecture(lambda s: Affine(pre=Vector, post=RMSNorm, alpha=s.sublayers)),
        "x_peri": Architecture(lambda s: PeriStep, enter=RMSNorm, exit=RMSNorm),
        "x_residual_dual": Architecture(lambda s: DualStep, enter=Both, exit=JoinDual),
        "x_admin": Architecture(lambda s: AdminStep, calibrate=profile),
    }[case]


OWN = ("x_lns", "keel_attempt2_noexempt", "x_peri", "x_residual_dual", "x_admin")


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


CASES = [(f, c) for f in FILES for c in sections(f, "cases") if c in SHIPPED or c in OWN]
DEPTHS = [(f, d) for f in FILES for d in sections(f, "analytic_unit_branch")]
GAINS = [(f, d) for f in FILES for d in sections(f, "init_multipliers")]
ATTENTION = [(f, k) for f in FILES for k in sections(f, "attention") if k.startswith("out_")]
COUNTS = [(f, n) for f in FILES for n in sections(f, "param_counts", "extra") if n in architectures.names()]


@pytest.mark.parametrize("file", FILES)
def test_each_file_is_there(file):
    assert Path(file).is_file(), f"KEEL_VECTORS names {file!r}, which is no file"
    assert file in {f for f, _ in CASES + DEPTHS + GAINS + ATTENTION + COUNTS}, f"{file!r} holds nothing to check"


class Toy(nn.Module):
    """The branch of the vectors; `cut` keeps gradients from passing through it."""

    def __init__(self, weight, scale):
        super().__init__()
        self.weight, self.scale, self.cut = nn.Parameter(weight), scale, False

    def forward(self, u):
        out = torch.tanh(u @ (self.scale * self.weight).T)
        return out.detach() if self.cut else out


def fill(stack: ResidualStack, inputs: dict) -> list[dict[str, nn.Parameter]]:
    """Loads the gains; returns the parameters of each step by their name in the file."""
    found = []
    with torch.no_grad():
        for index, step in enumerate(stack.steps):
            names = {
                (n.split(".")[0] if n.endswith(".gain") else n.split(".")[-1]): p for n, p in step.named_parameters()
            }
            for name, parameter in names.items():
                if name != "omega":  # profiled, not given
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
    meta, inputs, wanted = data["meta"], data["inputs"], data["cases"][case]
    name, changes = SHIPPED.get(case, (None, {}))
    architecture, options = shipped(name, meta["blocks"], changes) if name else (own(case), {})
    if "beta" in options:
        equal(options["beta"], wanted["w_scale"], "w_scale")
    toys = [Toy(f64(w), wanted["w_scale"]) for w in inputs["W"]]
    stack = ResidualStack(architecture, toys, meta["d"], meta["eps"]).double()
    steps = fill(stack, inputs)
    x0 = f64(inputs["x0"]).requires_grad_()
    if architecture.calibrate:
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
    """A branch of fixed variance, orthogonal to everything before it: means of squares then add exactly."""

    def __init__(self, width, index, strength):
        super().__init__()
        self.index, self.value = index + 1, strength * width**0.5

    def forward(self, u):
        out = torch.zeros_like(u)
        out[..., self.index] = self.value
        return out


ANALYTIC = {
    "post_ln": ("post_ln", {}, None),
    "keel": ("keel", {"exemption": False}, None),
    "keel_with_exemption": ("keel", {}, None),
    "deepnorm_unit_branch": ("deepnorm", {}, None),
    "deepnorm_init_branch": ("deepnorm", {}, "beta"),
    "deepnorm_keelpaper_init_branch": ("deepnorm", {"beta": "L^-0.25"}, "beta"),
    "pre_ln": ("pre_ln", {}, None),
    "hybridnorm": ("hybridnorm", {}, None),
    "mix_ln_025": ("mix_ln", {}, None),
}


@pytest.mark.parametrize(("file", "depth"), DEPTHS)
def test_skip_path_of_unit_branches(file, depth):
    """What is left of x0 in the last state when branches have unit variance (beta^4 of it where init shrinks them)."""
    wanted, sublayers = read(file)["analytic_unit_branch"][depth], int(depth)
    for key, (name, changes, shrink) in ANALYTIC.items():
        if key not in wanted:
            continue
        architecture, options = shipped(name, sublayers // 2, changes)
        strength = options[shrink] ** 2 if shrink else 1.0
        width = sublayers + 1
        branches = [UnitBranch(width, index, strength) for index in range(sublayers)]
        stack = ResidualStack(architecture, branches, width, eps=0.0).double()
        x0 = torch.zeros(1, width, dtype=torch.float64)
        x0[0, 0] = width**0.5
        states: list[torch.Tensor] = []
        with torch.no_grad():
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
    wanted = read(file)["init_multipliers"][blocks]
    variants = {"deepnorm_deepnet": {}, "deepnorm_keelpaper": {"beta": "L^-0.25"}}
    for key, changes in variants.items():
        assert shipped("deepnorm", int(blocks), changes)[0].init_gain == pytest.approx(wanted[key], rel=1e-9, abs=0.0)
    for name in set(architectures.names()) - {"deepnorm"}:
        assert shipped(name, int(blocks), {})[0].init_gain == wanted["all_others"]


@pytest.mark.parametrize(("file", "name"), COUNTS)
def test_parameter_counts(file, name):
    counts = read(file)["param_counts"]
    config = counts["config"]
    shape = ModelSettings(
        width=config["d"], heads=config["n_heads"], kv_heads=config["n_kv"], ffn_width=config["d_ff"], context=8
    )
    assert shape.width == config["n_heads"] * config["d_head"]
    architecture, options = shipped(name, config["blocks"], {})
    with torch.device("meta"):
        model = Transformer(shape, config["blocks"], 256, architecture)
    total = sum(p.numel() for p in model.parameters())
    core = total - model.embedding.numel() - model.head.numel() - counts["extra"][name]
    assert core == counts["core_excluding_embeddings"]
    assert CATALOGUE.parameters(name, shape, config["blocks"], options, vocab=256) == total
