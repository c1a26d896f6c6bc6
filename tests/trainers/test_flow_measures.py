"""What `keel-lab probe` measures, against finite sums and against the norms' algebra, on small models."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from keel_lab import gradient_flow as names
from keel_lab.errors import UsageError
from keel_lab.gradient_flow import Moment
from keel_lab.settings import Resources, TrainSettings
from keel_lab.store.root import Root
from keel_lab.trial import Trial
from tests.trainers.job_cases import SHAPE, Fit, same, trial
from tests.trainers.schemes import options
from trainers import architectures
from trainers.data.shard import Shard
from trainers.flow_measures import measure, normed
from trainers.gradient_flow import heldout_batch, measure_flow
from trainers.model import Transformer, build
from trainers.probe import parts

STRONG = SHAPE.model_copy(update={"init_std": 0.3})  # branches as strong as the stream


def case(data: Path, architecture: str, blocks: int = 3, **changes: Any) -> Trial:
    made = {"architecture": architecture, "options": options(architecture, blocks), "blocks": blocks, "model": STRONG}
    return trial(data, **(made | changes))


def measured(one: Trial, data: Path) -> tuple[Transformer, Moment]:
    torch.set_num_threads(1)
    model = build(one)
    return model, measure(0, model, heldout_batch(one, Shard.open(data)))


@pytest.mark.parametrize("architecture", architectures.names())
def test_each_architecture_has_every_measure_at_each_place(data: Path, architecture: str) -> None:
    model, moment = measured(case(data, architecture), data)
    assert moment.values.keys() == set(names.MEASURES)
    for name in names.SUBLAYER_MEASURES:
        assert len(moment.values[name]) == 6, name
    for name in names.PART_MEASURES:
        assert len(moment.values[name]) == len(parts(model)), name
    assert all(value > 0 for value in moment.values[names.STATE_GRAD])
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("architecture", ["post_ln", "keel", "hybridnorm", "admin", "residual_dual", "highway"])
def test_gradients_are_those_of_training(data: Path, architecture: str) -> None:
    one = case(data, architecture)
    model, moment = measured(one, data)
    batch = heldout_batch(one, Shard.open(data))
    states: list[torch.Tensor] = []
    loss = torch.nn.functional.cross_entropy(model(batch.inputs, states).flatten(0, 1), batch.targets.flatten())
    for state in states:
        state.retain_grad()
    loss.backward()
    assert moment.loss == loss.item()
    assert moment.values[names.STATE_GRAD] == pytest.approx([one.grad.norm().item() for one in states[:-1]], rel=1e-5)
    total = math.hypot(*(parameter.grad.norm().item() for parameter in model.parameters()))
    assert math.hypot(*moment.values[names.WEIGHT_GRAD]) == pytest.approx(total, rel=1e-5)
    matrices = math.hypot(*(parameter.grad.norm().item() for parameter in model.parameters() if parameter.ndim >= 2))
    assert math.hypot(*moment.values[names.MATRIX_GRAD]) == pytest.approx(matrices, rel=1e-5)
    assert matrices < total


def test_pre_ln_passes_the_skip_gradient_on_as_it_is(data: Path) -> None:
    _, moment = measured(case(data, "pre_ln"), data)
    assert moment.values[names.SKIP_PRODUCT] == pytest.approx([1.0] * 6, rel=1e-6)
    assert moment.values[names.RADIAL] == [0.0] * 6


def test_the_skip_gradient_of_post_ln_by_hand(data: Path) -> None:
    """One norm after the other: g' = (g - y (g . y) / d) / rms, from the states alone."""
    one = case(data, "post_ln")
    model, moment = measured(one, data)
    batch = heldout_batch(one, Shard.open(data))
    states: list[torch.Tensor] = []
    loss = torch.nn.functional.cross_entropy(model(batch.inputs, states).flatten(0, 1), batch.targets.flatten())
    gradient = torch.autograd.grad(loss, states[-1], retain_graph=True)[0]
    last = gradient.norm()
    for at in reversed(range(6)):
        with torch.no_grad():
            branch = model.stack.branches[at](states[at])
            rms = ((states[at] + branch).square().mean(-1, keepdim=True) + STRONG.norm_eps).sqrt()
            y = states[at + 1]
            along = (gradient * y).sum(-1, keepdim=True)
            share = ((along / y.norm(dim=-1, keepdim=True)) ** 2).sum() / gradient.square().sum()
            assert moment.values[names.RADIAL][at] == pytest.approx(share.item(), rel=1e-3, abs=1e-6)
            gradient = (gradient - y * along / STRONG.width) / rms
        assert moment.values[names.SKIP_PRODUCT][at] == pytest.approx((gradient.norm() / last).item(), rel=1e-4)


def test_the_terms_of_the_sum(data: Path) -> None:
    """|sum|^2 = |skip|^2 + |branch|^2 + 2 cos |skip| |branch|; alpha stands in all but the first block."""
    _, moment = measured(case(data, "keel"), data)
    skip, branch, cosine = (moment.values[name] for name in (names.SKIP_RMS, names.BRANCH_RMS, names.COSINE))
    expected = [s * s + b * b + 2 * c * s * b for s, b, c in zip(skip, branch, cosine, strict=True)]
    assert [value**2 for value in moment.values[names.SUM_RMS]] == pytest.approx(expected, rel=1e-4)
    alphas = [s / m for s, m in zip(skip, moment.values[names.STREAM_RMS], strict=True)]
    assert alphas == pytest.approx([1, 1, 6, 6, 6, 6], rel=1e-5)


def test_which_sub_layers_end_in_a_norm(data: Path) -> None:
    found = {name: normed(build(case(data, name))) for name in ("keel", "hybridnorm", "pre_ln", "highway")}
    assert found["keel"] == (False, True, True, True, True, True)
    assert found["hybridnorm"] == (True, False) * 3
    assert found["pre_ln"] == (False,) * 6
    assert found["highway"] == (None,) * 6


def stored(data: Path, folder: Path, one: Trial) -> Root:
    root = Root.open(folder / "store")
    assert one.data is not None
    for file in data.iterdir():
        root.write_file(f"data/{one.data.fingerprint}/{file.name}", file)
    return root


def test_a_probe_changes_no_number_and_knows_how_far_the_weights_went(fit: Fit, data: Path, tmp_path: Path) -> None:
    changes = {"architecture": "keel", "options": options("keel", 2), "blocks": 2}
    changes["train"] = TrainSettings(batch_size=4, accumulate=2)
    one = trial(data, **changes)
    flow = measure_flow(one, stored(data, tmp_path, one), (0, 1, 6))
    assert flow.steps == (0, 1, 6)
    weights = {name.removeprefix("model."): value for name, value in fit(6, **changes).weights().items()}
    model = build(one)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    model.load_state_dict(weights)
    again = measure(6, model, heldout_batch(one, Shard.open(data)))
    assert again.loss == flow.moments[-1].loss
    assert same(again.values[names.STATE_GRAD], flow.moments[-1].values[names.STATE_GRAD])
    at = flow.parts.index("head")
    drift = (weights["head"] - start["head"]).norm() / start["head"].norm()
    assert flow.moments[-1].values[names.WEIGHT_DRIFT][at] == pytest.approx(drift.item(), rel=1e-5)
    assert flow.moments[0].values[names.WEIGHT_DRIFT][at] == 0.0


def test_the_share_of_second_moments_below_eps(data: Path, tmp_path: Path) -> None:
    """All of them under a huge eps, none of a dense matrix's under a tiny one, no answer before the first update."""
    shares = {}
    for eps in (1e3, 1e-30):
        one = case(data, "pre_ln", 1, train=TrainSettings(batch_size=4, eps=eps))
        flow = measure_flow(one, stored(data, tmp_path, one), (0, 2))
        at = flow.parts.index("block 0 FFN")
        assert math.isnan(flow.moments[0].values[names.TINY_MOMENTS][at])
        shares[eps] = flow.moments[1].values[names.TINY_MOMENTS][at]
    assert shares == {1e3: 1.0, 1e-30: 0.0}


def test_at_init_alone_nothing_is_trained(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = case(data, "admin", 2)
    root = stored(data, tmp_path, one)
    trained = measure_flow(one, root, (0, 1)).moments[0]
    monkeypatch.setattr("trainers.gradient_flow.fit", None)
    alone = measure_flow(one, root, (0,)).moments[0]
    assert alone.loss == trained.loss  # Admin is profiled in both
    for name in names.SUBLAYER_MEASURES:
        assert alone.values[name] == pytest.approx(trained.values[name], nan_ok=True)


def test_what_cannot_be_probed_is_refused(data: Path, tmp_path: Path) -> None:
    one = case(data, "pre_ln")
    with pytest.raises(UsageError, match=r"only trials of trainers\.job can be probed"):
        measure_flow(one.model_copy(update={"trainer": "mine"}), stored(data, tmp_path, one), (0,))
    with pytest.raises(UsageError, match="is gone"):
        measure_flow(one, Root.open(tmp_path / "empty"), (0,))
    with pytest.raises(UsageError, match=r"resources\.gpus"):
        measure_flow(one.model_copy(update={"resources": Resources(gpus=2)}), stored(data, tmp_path, one), (0,))
