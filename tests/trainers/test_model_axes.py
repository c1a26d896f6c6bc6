"""The axes of the decoder beside its architecture: heads, kinds of FFN, norms on q and k, head, initial weights."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from tests.trainers.job_cases import SHAPE, Fit, trial
from tests.trainers.schemes import options
from trainers import architectures
from trainers.attention import Attention, Rotary
from trainers.catalogue import CATALOGUE
from trainers.feedforward import GELU, MixtureOfExperts, SwiGLU, feedforward
from trainers.initialisation import init_gains, init_std, initialise
from trainers.model import Transformer, build
from trainers.residual import BranchOptions


def filled(module: torch.nn.Module, std: float = 0.5) -> torch.nn.Module:
    initialise(module, 0, std, {})
    return module


def shaped(**changes: Any) -> ModelSettings:
    return ModelSettings(**({"width": 16, "heads": 4, "kv_heads": 2, "ffn_width": 24, "context": 8} | changes))


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_are_heads_that_share_keys_and_values(kv_heads: int) -> None:
    """MQA, GQA and MHA: each equals MHA with its rows of k and v repeated for the heads of a group."""
    rotary = Rotary(4, 8, 10_000.0)
    grouped = filled(Attention(shaped(kv_heads=kv_heads), rotary, BranchOptions()))
    full = Attention(shaped(kv_heads=4), rotary, BranchOptions())
    with torch.no_grad():
        for name, parameter in full.named_parameters():
            given = getattr(grouped, name)
            if name in ("k", "v"):
                given = given.view(kv_heads, 4, 16).repeat_interleave(4 // kv_heads, dim=0).flatten(0, 1)
            parameter.copy_(given)
        torch.testing.assert_close(grouped(x(2, 8, 16)), full(x(2, 8, 16)))


def test_qk_norm_is_on_q_and_k_unless_the_architecture_has_more() -> None:
    rotary = Rotary(4, 8, 10_000.0)
    plain = filled(Attention(shaped(), rotary, BranchOptions()))
    normed = filled(Attention(shaped(qk_norm=True), rotary, BranchOptions()))
    asked = filled(Attention(shaped(), rotary, BranchOptions("qk")))
    with torch.no_grad():
        q, k = normed.queries_and_keys(x(2, 8, 16))
        for part in (q, k):
            torch.testing.assert_close(part.square().mean(-1), torch.ones(part.shape[:-1]), rtol=1e-2, atol=0.0)
        assert torch.equal(normed(x(2, 8, 16)), asked(x(2, 8, 16)))
        assert not torch.allclose(normed(x(2, 8, 16)), plain(x(2, 8, 16)))
    assert Attention(shaped(qk_norm=True), rotary, BranchOptions("qkv")).v_norm is not None
    assert normed.v_norm is None


def test_gelu_is_its_equation() -> None:
    ffn = filled(feedforward(shaped(ffn="gelu")))
    assert isinstance(ffn, GELU)
    hidden = x(3, 16) @ ffn.up.T
    wanted = (hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))) @ ffn.down.T
    torch.testing.assert_close(ffn(x(3, 16)), wanted)


def moe(**changes: Any) -> MixtureOfExperts:
    made = filled(feedforward(shaped(ffn="moe", **changes)))
    assert isinstance(made, MixtureOfExperts)
    return made


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_a_moe_is_the_weighted_sum_of_its_best_experts(top_k: int) -> None:
    made, tokens = moe(top_k=top_k), x(5, 3, 16)
    probabilities = (tokens @ made.router.T).softmax(-1)
    wanted = torch.zeros_like(tokens)
    for place in itertools.product(range(5), range(3)):
        best = probabilities[place].argsort(descending=True)[:top_k]
        total = probabilities[place][best].sum() if top_k > 1 else 1.0
        for expert in best:
            dense = SwiGLU(16, 24)
            dense.load_state_dict({name: getattr(made, name)[expert] for name in ("gate", "up", "down")})
            wanted[place] += probabilities[place][expert] / total * dense(tokens[place])
    torch.testing.assert_close(made(tokens), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("top_k", [1, 2])
def test_every_expert_that_is_used_and_the_router_learn(top_k: int) -> None:
    made = moe(top_k=top_k)
    made(x(64, 16)).square().sum().backward()
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.flatten(1).any(dim=1).all())


def test_the_balance_loss_is_one_where_all_are_used_alike_and_the_number_of_experts_where_one_is() -> None:
    made = moe(top_k=1)
    with torch.no_grad():
        made.router.copy_(100.0 * torch.eye(4, 16))
        tokens = torch.eye(4, 16).repeat(6, 1)
        made(tokens)
        assert float(made.balance_loss) == pytest.approx(1.0)
        made(tokens[:1].expand(24, -1))
        assert float(made.balance_loss) == pytest.approx(4.0)
    made(x(32, 16))
    made.balance_loss.backward()
    assert bool(made.router.grad.any())


def test_a_moe_of_one_expert_is_that_expert() -> None:
    made = moe(experts=1, top_k=1)
    dense = SwiGLU(16, 24)
    dense.load_state_dict({name: getattr(made, name)[0] for name in ("gate", "up", "down")})
    torch.testing.assert_close(made(x(9, 16)), dense(x(9, 16)))


def test_more_choices_than_experts_are_refused() -> None:
    with pytest.raises(UsageError, match=r"model.top_k: found 5; must be at most model.experts = 4"):
        moe(top_k=5)


def test_the_balance_loss_is_minimised_and_not_recorded(fit: Fit) -> None:
    first, second = (fit(3, model=moe_shape(balance)).curve.steps for balance in (0.0, 10.0))
    assert first[0].loss == second[0].loss  # the model is the same
    assert first[0].grad_norm != second[0].grad_norm
    assert first[2].loss != second[2].loss


def moe_shape(balance: float) -> ModelSettings:
    return SHAPE.model_copy(update={"ffn": "moe", "balance_weight": balance, "init_std": "match_width"})


def test_the_models_balance_loss_is_weighted_and_summed_over_its_moes(data: Path) -> None:
    model = build(trial(data, model=moe_shape(0.5), blocks=3))
    model(torch.arange(8)[None])
    parts = [branch.balance_loss.item() for branch in model.stack.branches[1::2]]
    balance = model.balance_loss()
    assert balance is not None
    assert balance.item() == pytest.approx(0.5 * sum(parts))
    assert build(trial(data)).balance_loss() is None


def test_a_tied_head_is_the_embedding(data: Path) -> None:
    tied = build(trial(data, model=SHAPE.model_copy(update={"tied_head": True})))
    free = build(trial(data))
    assert tied.head is tied.embedding
    assert "head" not in dict(tied.named_parameters())
    with torch.no_grad():
        free.head.copy_(free.embedding)
    tokens = torch.arange(8)[None]
    for model in (tied, free):
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    assert torch.equal(tied(tokens), free(tokens))
    torch.testing.assert_close(tied.embedding.grad, free.embedding.grad + free.head.grad)  # type: ignore[operator]


def test_depth_scaled_init_shrinks_what_writes_to_the_stream(data: Path) -> None:
    assert init_std(ModelSettings(init_std="depth_scaled")) == 0.02
    assert init_std(ModelSettings(init_std="match_width_depth_scaled")) == init_std(
        ModelSettings(init_std="match_width")
    )
    assert init_gains(ModelSettings(), 8, {"o": 0.5}) == {"o": 0.5}
    both = init_gains(ModelSettings(init_std="depth_scaled"), 16, {"o": 0.5, "v": 0.5})
    assert both == {"o": 0.125, "v": 0.5, "down": 0.25}
    plain, scaled = (
        dict(build(trial(data, blocks=8, model=SHAPE.model_copy(update={"init_std": std}))).named_parameters())
        for std in (0.02, "depth_scaled")
    )
    for name, value in plain.items():
        factor = 0.25 if name.endswith((".o", ".down")) else 1.0
        torch.testing.assert_close(scaled[name], factor * value)


def test_experts_start_apart_and_as_strong_as_a_dense_ffn(data: Path) -> None:
    model = build(trial(data, model=SHAPE.model_copy(update={"ffn": "moe", "width": 64, "ffn_width": 64})))
    gate = model.stack.branches[1].gate.detach()
    assert gate.shape == (4, 64, 64)
    assert float(gate.std()) == pytest.approx(0.02, rel=0.05)
    assert abs(float((gate[0] * gate[1]).mean())) < 0.02**2 / 10


AXES: dict[str, list[Any]] = {
    "kv_heads": [4, 2, 1],
    "ffn": ["swiglu", "gelu", "moe"],
    "qk_norm": [False, True],
    "tied_head": [False, True],
}


@pytest.mark.parametrize("name", architectures.names())
def test_parameter_arithmetic_holds_on_every_axis(name: str) -> None:
    chosen = options(name, 2)
    for values in itertools.product(*AXES.values()):
        shape = shaped(**dict(zip(AXES, values, strict=True)), experts=3)
        with torch.device("meta"):
            model = Transformer(shape, 2, 33, architectures.find(name).build(2, chosen))
        total = sum(parameter.numel() for parameter in model.parameters())
        assert CATALOGUE.parameters(name, shape, 2, chosen, vocab=33) == total, shape
