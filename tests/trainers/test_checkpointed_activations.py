"""`resources.checkpoint_activations`: the same numbers bit for bit, and less kept for the backward pass."""

from pathlib import Path
from typing import Any

import pytest
import torch

from keel_lab import diagnostics as names
from keel_lab.diagnostics import Window
from keel_lab.settings import Resources, TrainSettings
from keel_lab.trial import Trial
from tests.trainers.job_cases import SHAPE, Fit, MemoryReport, same, trial
from tests.trainers.schemes import options
from trainers import architectures
from trainers.fitting import fit as fit_trial
from trainers.model import Transformer, build
from trainers.probe import Probe

CHECKPOINTED = Resources(checkpoint_activations=True)


def case(data: Path, architecture: str, blocks: int = 3, **shape: Any) -> Trial:
    return trial(
        data,
        architecture=architecture,
        options=options(architecture, blocks),
        blocks=blocks,
        model=SHAPE.model_copy(update=shape),
    )


def gradients(one: Trial, bf16: bool = False) -> tuple[torch.Tensor, list[torch.Tensor], int]:
    """The loss, every gradient, and the bytes that were kept for the backward pass outside of blocks."""
    torch.set_num_threads(1)
    model = build(one)
    tokens = torch.arange(4 * SHAPE.context).reshape(4, -1) * 7 % 256
    kept = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        balance = model.balance_loss()
        (loss if balance is None else loss + balance).backward()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert any(gradient.any() for gradient in found)
    return loss.detach(), found, kept


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("architecture", architectures.names())
def test_gradients_are_equal_bit_for_bit(data: Path, architecture: str, bf16: bool) -> None:
    plain = case(data, architecture, 6)
    loss, expected, kept = gradients(plain, bf16)
    again, found, fewer = gradients(plain.model_copy(update={"resources": CHECKPOINTED}), bf16)
    assert same([again, *found], [loss, *expected])
    assert fewer < 0.6 * kept


@pytest.mark.parametrize("shape", [{"ffn": "moe"}, {"ffn": "gelu", "qk_norm": True, "tied_head": True}])
def test_gradients_are_equal_for_other_branches(data: Path, shape: dict[str, Any]) -> None:
    plain = case(data, "keel", **shape)
    loss, expected, _ = gradients(plain)
    again, found, _ = gradients(plain.model_copy(update={"resources": CHECKPOINTED}))
    assert same([again, *found], [loss, *expected])


def test_it_is_no_part_of_the_question_and_changes_no_byte(fit: Fit, data: Path) -> None:
    changes = {"architecture": "keel", "options": options("keel", 2), "blocks": 2}
    assert trial(data, **changes).id == trial(data, **changes, resources=CHECKPOINTED).id
    changes["train"] = TrainSettings(batch_size=4, accumulate=2)
    plain = fit(6, **changes)
    curve, weights = plain.curve.to_parquet(), plain.weights()
    found = fit(6, stops=(3,), **changes, resources=CHECKPOINTED)
    assert found.curve.to_parquet() == curve
    assert same(found.weights(), weights)


def test_no_block_is_computed_twice_where_there_is_nothing_to_save(data: Path) -> None:
    """Without gradients, and where the states are asked for."""
    model, seen = build(case(data, "keel").model_copy(update={"resources": CHECKPOINTED})), []
    model.stack.branches[0].register_forward_hook(lambda *_: seen.append(1))
    tokens, states = torch.zeros(1, 4, dtype=torch.int64), list[torch.Tensor]()
    with torch.no_grad():
        model(tokens)
    assert len(seen) == 1
    model(tokens, states)[..., 0].sum().backward()
    assert len(states) == 7
    assert len(seen) == 2


def test_the_probe_reads_each_block_once(data: Path, tmp_path: Path) -> None:
    """Though its hooks are called again in the backward pass."""

    def measured(resources: Resources) -> Probe:
        one = case(data, "keel", 2).model_copy(update={"resources": resources})
        made: list[Probe] = []

        def probe(model: Transformer) -> Probe:
            made.append(Probe(model, window.first))
            return made[0]

        fit_trial(one, tmp_path, MemoryReport(data, tmp_path, window.last), probe)
        return made[0]

    window = Window(2, 3)
    plain, found = measured(Resources()), measured(CHECKPOINTED)
    assert found.steps == [2, 3]
    for name in names.MEASURES:
        assert torch.tensor(found.values[name]).equal(torch.tensor(plain.values[name])), name
