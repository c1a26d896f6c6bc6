"""Initial weights: one stream a (seed, name), shared by all architectures, times the gain of the matrix's kind."""

import math
from statistics import fmean

import pytest
import torch

from keel_lab.settings import ModelSettings, RampSchedule, TrainSettings
from keel_lab.trial import DataRef, Trial
from tests.trainers.schemes import options
from trainers import architectures
from trainers.initialisation import decay_groups, init_std, standard_normal
from trainers.model import build


def trial(name, seed=0, **shape):
    return Trial(
        architecture=name,
        options=options(name, 2),
        blocks=2,
        model=ModelSettings(**shape),
        data=DataRef(fingerprint="0", tokenizer="bytes", vocab=256),
        train=TrainSettings(),
        schedule=RampSchedule(),
        init_seed=seed,
    )


def weights(name, seed=0, **shape):
    return {key: value.detach() for key, value in build(trial(name, seed, **shape)).named_parameters()}


@pytest.mark.parametrize("name", architectures.names())
def test_same_matrices_in_every_architecture(name):
    plain, found = weights("pre_ln"), weights(name)
    gains = architectures.find(name).build(2, trial(name).options).init_gain
    matrices = {key for key, value in found.items() if value.ndim == 2}
    shared = {key for key, value in plain.items() if value.ndim == 2}
    assert all(key.startswith("stack.steps.") for key in matrices - shared)
    assert shared <= matrices
    for key in shared:
        gain = gains.get(key.rpartition(".")[2], 1.0)
        torch.testing.assert_close(found[key], gain * plain[key], rtol=1e-6, atol=0.0)
        assert gain != 1.0 or torch.equal(found[key], plain[key])


def test_deepnorm_shrinks_v_o_and_the_ffn_alone():
    plain, found = weights("pre_ln"), weights("deepnorm")
    ratios = {}
    for key in plain.keys() & found.keys():
        if plain[key].ndim == 2:
            ratios.setdefault(key.rpartition(".")[2], []).append(float(found[key].norm() / plain[key].norm()))
    beta = 16**-0.25
    wanted = {"embedding": 1.0, "head": 1.0, "q": 1.0, "k": 1.0} | dict.fromkeys(("v", "o", "gate", "up", "down"), beta)
    assert {kind: fmean(values) for kind, values in ratios.items()} == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", architectures.names())
def test_vectors_start_where_their_source_says(name):
    """Gains and factors at one, ReZero's gates at zero, Highway's bias towards carrying."""
    start = {"rezero": 0.0, "highway": -2.0}.get(name, 1.0)
    vectors = [value for value in weights(name).values() if value.ndim < 2]
    assert vectors
    assert all(bool((value == start).all()) for value in vectors)


def test_seed_decides_and_global_generators_do_not():
    torch.manual_seed(1)
    one = weights("keel", seed=3)
    torch.manual_seed(2)
    again, other = weights("keel", seed=3), weights("keel", seed=4)
    state = torch.get_rng_state()
    build(trial("keel"))
    assert torch.equal(state, torch.get_rng_state())
    for key, value in one.items():
        assert torch.equal(value, again[key])
        assert value.ndim < 2 or not torch.equal(value, other[key])


def test_streams_are_independent_and_normal():
    a, b = standard_normal(0, "stack.branches.0.q", (300, 300)), standard_normal(0, "stack.branches.2.q", (300, 300))
    assert a.dtype == torch.float32
    bound = 5 / math.sqrt(a.numel())
    assert abs(float((a * b).mean())) < bound
    assert abs(float(a.mean())) < bound
    assert float(a.square().mean()) == pytest.approx(1.0, abs=5 * math.sqrt(2 / a.numel()))
    assert float(a.pow(4).mean()) == pytest.approx(3.0, abs=5 * math.sqrt(96 / a.numel()))


def test_first_numbers_of_a_stream_stay_what_they_are():
    """Stored trials stand on them: if this fails, NUMERICS must be raised."""
    found = standard_normal(0, "embedding", (3,)).tolist()
    assert found == pytest.approx([0.20279233, -0.04396916, 2.28063321], rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "std"),
    [({}, 0.02), ({"init_std": 0.05}, 0.05), ({"init_std": "match_width"}, 0.02 * math.sqrt(32))],
)
def test_standard_deviation(shape, std):
    assert init_std(ModelSettings(**shape)) == pytest.approx(std, rel=1e-12)
    assert float(weights("pre_ln", **shape)["embedding"].std()) == pytest.approx(std, rel=0.04)
    assert init_std(ModelSettings(width=1024, init_std="match_width")) == pytest.approx(0.02)


@pytest.mark.parametrize("name", architectures.names())
def test_only_matrices_decay(name):
    model = build(trial(name))
    matrices, vectors = decay_groups(model.parameters(), 0.25)
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.25, 0.0)
    assert {p.ndim for p in matrices["params"]} == {2}
    assert {p.ndim for p in vectors["params"]} == {1}
    assert len(matrices["params"]) + len(vectors["params"]) == len(list(model.parameters()))
