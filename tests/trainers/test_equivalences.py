"""Architectures that are one function in the limit: outputs and gradients, over random shapes, weights and gains."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.trainers.schemes import built, options
from trainers.initialisation import standard_normal
from trainers.residual import Architecture, ResidualStack

SHAPES = st.tuples(
    st.integers(1, 5),  # blocks
    st.integers(2, 9),  # width
    st.integers(1, 4),  # tokens
    st.integers(0, 2**32),  # seed
)


class Branch(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return torch.tanh(u @ self.weight.T)


def stack(architecture: Architecture, shape: tuple[int, int, int, int], rename: dict[str, str]) -> ResidualStack:
    """The wiring in float64, every parameter keyed by its name; one renamed to nothing keeps its initial value."""
    blocks, width, _, seed = shape
    made = ResidualStack(architecture, [Branch(width) for _ in range(2 * blocks)], width, 1e-5).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            known = name
            for old, new in rename.items():
                known = known.replace(old, new)
            if not known.endswith("."):
                parameter.copy_(standard_normal(seed, known, parameter.shape) + (parameter.ndim == 1))
    return made


def result(made: ResidualStack, shape: tuple[int, int, int, int]) -> dict[str, torch.Tensor]:
    """Output and gradients: of x0, and of each branch's matrix."""
    _, width, tokens, seed = shape
    x0 = standard_normal(seed, "x0", (tokens, width)).double().requires_grad_()
    out = made(x0)
    (out * standard_normal(seed, "C", (tokens, width))).sum().backward()
    assert x0.grad is not None
    gradients = {str(index): branch.weight.grad for index, branch in enumerate(made.branches)}
    return {"out": out.detach(), "x0": x0.grad, **gradients}


EQUAL = {
    "Keel, alpha 1, without inner norm and exemption = Post-LN": (
        ("keel", {"alpha": 1, "inner_norm": False, "exemption": False}),
        ("post_ln", {}),
        {},
    ),
    "Keel without inner norm = attempt 1": (("keel", {"inner_norm": False}), ("keel_attempt1", {}), {}),
    "attempt 1, alpha L^0.25, without exemption = DeepNorm's wiring": (
        ("keel_attempt1", {"alpha": "L^0.25", "exemption": False}),
        ("deepnorm", {}),
        {},
    ),
    "attempt 2 with ones = attempt 1": (("keel_attempt2", {}), ("keel_attempt1", {}), {"pre.factor": "."}),
    "attempt 3 = Keel": (("keel_attempt3", {}), ("keel", {}), {"pre.1.factor": "pre.gain"}),
    "attempt 3 = Keel, both without exemption": (
        ("keel_attempt3", {"exemption": False}),
        ("keel", {"exemption": False}),
        {"pre.1.factor": "pre.gain"},
    ),
    "Keel's learnable alpha starts at alpha": (
        ("keel", {"learnable_alpha": True, "alpha_profile": "rising", "ffn_factor": 3}),
        ("keel", {"alpha_profile": "rising", "ffn_factor": 3}),
        {"skip.factor": "."},
    ),
    "Mix-LN, fraction 0 = Pre-LN": (("mix_ln", {"fraction": 0}), ("pre_ln", {}), {}),
    "Mix-LN, fraction 1 = Post-LN with a final norm": (
        ("mix_ln", {"fraction": 1}),
        ("post_ln", {"final_norm": True}),
        {},
    ),
    "DeepNorm, alpha 1 and beta 1 = Post-LN": (("deepnorm", {"alpha": 1, "beta": 1}), ("post_ln", {}), {}),
    "Admin before profiling = Post-LN": (("admin", {}), ("post_ln", {}), {"skip.factor": "."}),
    "scaled Pre-LN, c 1 = Pre-LN": (("pre_ln_scaled", {"c": 1}), ("pre_ln", {}), {}),
}


@pytest.mark.parametrize("case", EQUAL)
@settings(deadline=None, max_examples=25)
@given(shape=SHAPES)
def test_equal(case: str, shape: tuple[int, int, int, int]) -> None:
    (one, changes), (other, other_changes), rename = EQUAL[case]
    first = result(stack(built(one, shape[0], **changes), shape, rename), shape)
    second = result(stack(built(other, shape[0], **other_changes), shape, {}), shape)
    for key, value in second.items():
        torch.testing.assert_close(first[key], value, rtol=1e-9, atol=1e-11, msg=lambda text, key=key: f"{key}: {text}")


@settings(deadline=None, max_examples=25)
@given(shape=SHAPES)
def test_rezero_with_shut_gates_is_the_identity(shape: tuple[int, int, int, int]) -> None:
    """So it is as built, and its gates are what learns first."""
    blocks, width, tokens, seed = shape
    made = stack(built("rezero", blocks), shape, {"mid.factor": "."})
    x0 = standard_normal(seed, "x0", (tokens, width)).double()
    out = made(x0)
    assert torch.equal(out, x0)
    out.sum().backward()
    assert all(not branch.weight.grad.any() for branch in made.branches)
    assert all(step.mid.factor.grad.any() for step in made.steps)


def test_the_init_is_equal_too_where_the_wiring_is() -> None:
    assert set(built("deepnorm", 4, alpha=1, beta=1).init_gain.values()) == {1.0}
    assert built("deepnorm", 4, beta="keel_paper").init_gain == built("deepnorm", 4, beta="L^-0.25").init_gain
    assert options("deepnorm", 4, beta="deepnet") == options("deepnorm", 4)


@pytest.mark.parametrize(
    ("changes", "alphas"),
    [
        ({}, [6.0] * 6),
        ({"alpha": 2, "alpha_profile": "rising"}, [2 / 6, 4 / 6, 1.0, 8 / 6, 10 / 6, 2.0]),
        ({"alpha_profile": "rising"}, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ({"alpha_profile": "falling"}, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
        ({"ffn_factor": "L/2"}, [6.0, 18.0, 6.0, 18.0, 6.0, 18.0]),
        ({"exemption": True, "ffn_factor": 0.5}, [1.0, 1.0, 6.0, 3.0, 6.0, 3.0]),
    ],
)
def test_alphas_of_keel(changes: dict[str, Any], alphas: list[float]) -> None:
    made = ResidualStack(built("keel", 3, **({"exemption": False} | changes)), [nn.Identity()] * 6, 4, 1e-5)
    assert [step.alpha for step in made.steps] == pytest.approx(alphas, rel=1e-12)
