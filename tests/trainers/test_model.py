"""The decoder: causal, learning, with a stream that autocast does not round."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional

from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.trial import DataRef, Trial
from tests.trainers.schemes import options
from trainers import architectures
from trainers.initialisation import decay_groups
from trainers.model import Transformer, assemble, build
from trainers.norm import BareNorm, Factor, RMSNorm
from trainers.residual import Affine, Architecture

VOCAB = 61


def trial(name, blocks=2, data=True, **shape):
    return Trial(
        architecture=name,
        options=options(name, blocks),
        blocks=blocks,
        model=ModelSettings(**({"context": 16, "init_std": "match_width"} | shape)),
        data=DataRef(fingerprint="0", tokenizer="bytes", vocab=VOCAB) if data else None,
        train=TrainSettings(),
        schedule=RampSchedule(),
    )


def awake(name):
    """A model whose branches count from the start: ReZero's gates are shut at first, Highway's nearly."""
    model = build(trial(name))
    with torch.no_grad():
        for step in model.stack.steps:
            if name == "rezero":
                step.mid.factor.fill_(1.0)
            elif name == "highway":
                step.bias.zero_()
    return model


def tokens(batch=3, time=16):
    return torch.randint(0, VOCAB, (batch, time), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", architectures.names())
def test_future_tokens_do_not_change_past_logits(name):
    model = awake(name)
    before = tokens()
    after = before.clone()
    after[:, 9:] = (after[:, 9:] + 1) % VOCAB
    with torch.no_grad():
        one, two = model(before), model(after)
    torch.testing.assert_close(one[:, :9], two[:, :9], rtol=0.0, atol=1e-6)
    assert not torch.allclose(one[:, 9:], two[:, 9:], atol=1e-2)
    assert one.shape == (3, 16, VOCAB)


@pytest.mark.parametrize("name", architectures.names())
def test_order_of_the_past_matters(name):
    model, before = awake(name), tokens()
    after = before.clone()
    after[:, [2, 7]] = before[:, [7, 2]]
    with torch.no_grad():
        assert not torch.allclose(model(before)[:, -1], model(after)[:, -1], atol=1e-4)


@pytest.mark.parametrize("name", architectures.names())
def test_gradients_reach_every_parameter(name):
    model = awake(name)
    functional.cross_entropy(model(tokens()).flatten(0, 1), tokens().roll(1, -1).flatten()).backward()
    still = [key for key, parameter in model.named_parameters() if not bool(parameter.grad.any())]
    assert still == []


@pytest.mark.parametrize("name", architectures.names())
def test_learns(name):
    """A fixed map from each token to the next, far below chance (log 61 = 4.1) in a few steps."""
    torch.set_num_threads(1)
    model = build(trial(name))
    optimizer = torch.optim.AdamW(decay_groups(model.parameters(), 0.01), lr=5e-3)
    inputs = tokens(8, 16)
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), ((inputs * 7 + 3) % VOCAB).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 3.5
    assert losses[-1] < 1.0


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("name", architectures.names())
def test_stream_norms_and_logits_stay_fp32(name, autocast):
    model = build(trial(name))
    fp32 = [module for module in model.modules() if isinstance(module, RMSNorm | BareNorm | Factor)]
    fp32 += [*model.stack.steps, *filter(None, (model.stack.enter, model.stack.exit))]
    seen: dict[str, set[torch.dtype]] = {"branch": set(), "fp32": set()}

    def watch(kind):
        return lambda module, inputs, output: seen[kind].add(output.dtype)

    for branch in model.stack.branches:
        branch.register_forward_hook(watch("branch"))
    for module in fp32:
        module.register_forward_hook(watch("fp32"))
    states = []
    with torch.autocast("cpu", dtype=torch.bfloat16) if autocast else nullcontext():
        logits = model(tokens(), states)
        functional.cross_entropy(logits.flatten(0, 1), tokens().flatten()).backward()
    assert seen["branch"] == {torch.bfloat16 if autocast else torch.float32}
    assert seen["fp32"] == {torch.float32}
    assert {state.dtype for state in states} == {torch.float32}
    assert logits.dtype == torch.float32
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}


def test_a_weak_branch_survives_beside_a_large_alpha_in_bf16():
    """One step at alpha = 512: a bf16 stream would lose a branch of a thousandth of it."""
    step = Affine(alpha=512.0)(4, 1e-5)
    x, out = torch.ones(1, 4), torch.full((1, 4), 0.5, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert step(x, lambda u: out).tolist() == [[512.5] * 4]
        assert Affine(alpha=512.0, gamma=0.25)(4, 1e-5)(x, lambda u: out).tolist() == [[512.125] * 4]


@torch.no_grad()
def test_a_bf16_stream_loses_the_branch_that_an_fp32_stream_keeps():
    """Keel's step at alpha = L = 512 with stream and branch of unit variance; the branch is bf16 under autocast."""
    x, out = torch.randn(2, 64, 256, generator=torch.Generator().manual_seed(0))
    out = out.bfloat16()
    bare, keel = Affine(alpha=512.0)(256, 1e-5), Affine(post=RMSNorm, alpha=512.0)(256, 1e-5)
    in_float64 = Affine(post=RMSNorm, alpha=512.0)(256, 1e-5).double()
    exact = in_float64(x.double(), lambda u: out.double())
    effect = exact - in_float64(x.double(), torch.zeros_like)

    def error(found):
        """Of the step's result, in units of what the branch does to it."""
        return float((found - exact).norm() / effect.norm())

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert error(keel(x, lambda u: out)) < 1e-3
        rounded = x.bfloat16()  # what this stream would be, were the norm before it not in fp32
        assert error(keel(rounded, lambda u: out).bfloat16()) > 1.0
        unmoved = bare(rounded, lambda u: out) == 512.0 * rounded
        assert float(unmoved.float().mean()) > 0.5
        assert not bool((bare(x, lambda u: out) == 512.0 * x).any())


def test_states_are_entry_and_every_sublayer():
    model, states = build(trial("keel")), []
    model(tokens(), states)
    assert len(states) == 5
    assert torch.equal(states[0], functional.embedding(tokens(), model.embedding))
    torch.testing.assert_close(functional.linear(states[-1], model.head), model(tokens()))


def test_short_sequences_pass_and_long_ones_are_refused():
    model = build(trial("pre_ln"))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens()[:, :5]), model(tokens())[:, :5])
    with pytest.raises(ValueError, match="17 tokens, but the model was built for a context of 16"):
        model(tokens(1, 17))


def test_heads_share_grouped_keys():
    model = build(trial("pre_ln", heads=8, kv_heads=2))
    assert model.stack.branches[0].k.shape == (8, 32)
    assert model.stack.branches[0].q.shape == (32, 32)
    assert model(tokens()).isfinite().all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"heads": 3, "kv_heads": 3}, "model.heads: found 3; must divide model.width = 32"),
        ({"heads": 4, "kv_heads": 3}, "model.kv_heads: found 3; must divide model.heads = 4"),
        ({"heads": 32, "kv_heads": 2}, "width / heads = 1 must be even"),
    ],
)
def test_impossible_shapes(shape, message):
    with torch.device("meta"), pytest.raises(UsageError, match=message):
        assemble(trial("pre_ln", **shape))


def test_a_trial_without_corpus_is_refused():
    with pytest.raises(ValueError, match="names no corpus"):
        assemble(trial("pre_ln", data=False))


def test_rotary_tables_are_shared_and_not_saved():
    model = build(trial("keel", blocks=3))
    assert len({id(model.stack.branches[index].rotary) for index in (0, 2, 4)}) == 1
    saved = model.state_dict()
    assert saved.keys() == {name for name, _ in model.named_parameters()}


def test_calibration_sees_the_embedded_batch_without_gradients():
    seen = []

    def profile(stack, x):
        seen.append((stack, x, torch.is_grad_enabled()))

    shape = ModelSettings(context=16)
    model = Transformer(shape, 1, VOCAB, Architecture(rule=lambda site: Affine(), calibrate=profile))
    model.calibrate(tokens())
    ((stack, x, gradients),) = seen
    assert stack is model.stack
    assert torch.equal(x, functional.embedding(tokens(), model.embedding))
    assert not gradients
