"""The callback that looks inside the model while it trains: it only reads, so the numbers stay what they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from keel_lab import diagnostics as names
from trainers.attention import Attention
from trainers.model import Transformer

_AT_ONCE = 2**24  # attention logits held in memory at a time


class Probe(Callback):
    """Measures every update from one step on; see `keel_lab.diagnostics` for what.

    Args:
        model: what trains.
        first: the first step to be measured; before it nothing is hooked and nothing is slower.

    Attributes:
        places: for each measure the names of its columns.
        steps: the updates measured so far.
        values: for each measure a row a step.
    """

    def __init__(self, model: Transformer, first: int) -> None:
        self._model = model
        self._first = first
        self._parts = parts(model)
        self._matrices = {name: [one for one in part if one.ndim >= 2] for name, part in self._parts.items()}
        sublayers = [_sublayer(index) for index in range(len(model.stack.branches))]
        attention = [i for i, branch in enumerate(model.stack.branches) if isinstance(branch, Attention)]
        part_names = tuple(self._parts)
        self.places: Mapping[str, tuple[str, ...]] = {
            names.GRAD_NORM: part_names,
            names.UPDATE_RATIO: part_names,
            names.UPDATE_RATIO_MEDIAN: part_names,
            names.ATTENTION_LOGIT: tuple(sublayers[i] for i in attention),
            names.OUTPUT_LOGIT: ("head",),
            names.STREAM_RMS: tuple(sublayers),
        }
        self.steps: list[int] = []
        self.values: dict[str, list[list[float]]] = {name: [] for name in names.MEASURES}
        self._attention = attention
        self._hooked = False
        self._forward = False
        self._largest: dict[str, Tensor] = {}  # this update's, over its micro-batches
        self._squares: list[list[Tensor]] = [[] for _ in sublayers]
        self._gradients: list[Tensor] = []
        self._before: dict[str, list[Tensor]] = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Hooks the model at the first micro-batch of the first measured step."""
        if not self._hooked and trainer.global_step + 1 >= self._first:
            self._hook()
            self._hooked = True
        self._forward = True

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Stops reading: with checkpointed activations the blocks are computed again now, and call the hooks again."""
        self._forward = False

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Reads gradients before they are clipped, and keeps the weights as they are."""
        if self._hooked:
            self._gradients = [_norm(one.grad for one in part) for part in self._parts.values()]
            self._before = {name: [one.detach().clone() for one in part] for name, part in self._matrices.items()}

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes down the update that just ended; does nothing while one accumulates."""
        if not self._before:
            return
        ratios = [self._ratios(name) for name in self._parts]
        rms = [torch.stack(squares).mean().sqrt() for squares in self._squares]
        attention = [self._largest[_sublayer(index)] for index in self._attention]
        row = {
            names.GRAD_NORM: self._gradients,
            names.UPDATE_RATIO: [ratio.max() for ratio in ratios],
            names.UPDATE_RATIO_MEDIAN: [ratio.median() for ratio in ratios],
            names.ATTENTION_LOGIT: attention,
            names.OUTPUT_LOGIT: [self._largest["head"]],
            names.STREAM_RMS: rms,
        }
        flat = iter(torch.stack([value.float() for values in row.values() for value in values]).tolist())
        for name, values in row.items():
            self.values[name].append([next(flat) for _ in values])
        self.steps.append(trainer.global_step)
        self._before = {}
        self._largest = {}
        self._squares = [[] for _ in self._squares]

    def _hook(self) -> None:
        stack = self._model.stack
        for index in self._attention:
            stack.branches[index].register_forward_pre_hook(partial(self._before_attention, _sublayer(index)))
        for index, step in enumerate(stack.steps):
            step.register_forward_hook(partial(self._after_step, index))
        self._model.register_forward_hook(
            lambda module, inputs, out: self._seen("head", out.detach().float().abs().max())
        )

    def _before_attention(self, place: str, branch: nn.Module, inputs: tuple[Tensor]) -> None:
        if self._forward:
            assert isinstance(branch, Attention)
            self._seen(place, _attention_logit(branch, inputs[0]))

    def _after_step(self, index: int, step: nn.Module, inputs: Any, out: Tensor) -> None:
        if self._forward:
            self._squares[index].append(out.detach().float().square().mean())

    def _seen(self, place: str, value: Tensor) -> None:
        before = self._largest.get(place)
        self._largest[place] = value if before is None else torch.maximum(before, value)

    def _ratios(self, part: str) -> Tensor:
        """|dW| / |W| of each of a part's matrices; NaN for a part without any."""
        pairs = zip(self._matrices[part], self._before[part], strict=True)
        found = [(new.detach() - old).norm() / old.norm() for new, old in pairs]
        return torch.stack(found) if found else torch.full((1,), math.nan, device=self._model.head.device)


def parts(model: Transformer) -> dict[str, list[nn.Parameter]]:
    """The model's parameters by part, in the order of the forward pass: each sub-layer with its norms.

    A tied head is no part beside the embedding.
    """
    stack = model.stack
    found: dict[str, list[nn.Parameter]] = {"embedding": [model.embedding]}
    if stack.enter is not None:
        found["entry"] = list(stack.enter.parameters())
    for index, (branch, step) in enumerate(zip(stack.branches, stack.steps, strict=True)):
        found[_sublayer(index)] = [*branch.parameters(), *step.parameters()]
    if stack.exit is not None:
        found["final norm"] = list(stack.exit.parameters())
    if model.head is not model.embedding:
        found["head"] = [model.head]
    return {name: part for name, part in found.items() if part}


def _sublayer(index: int) -> str:
    return f"block {index // 2} {'FFN' if index % 2 else 'attention'}"


def _norm(gradients: Iterable[Tensor | None]) -> Tensor:
    known = [gradient for gradient in gradients if gradient is not None]
    return torch.stack([gradient.norm() for gradient in known]).norm() if known else torch.tensor(math.nan)


@torch.no_grad()
def _attention_logit(branch: Attention, x: Tensor) -> Tensor:
    """The largest |logit| before the softmax over the causal pairs; SDPA does not show it, so it is computed again."""
    q, k = branch.queries_and_keys(x.detach())
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3)
    q, k = (one.flatten(0, -3).float() for one in (q, k))
    time = q.shape[-2]
    later = torch.ones(time, time, dtype=torch.bool, device=q.device).triu(1)
    rows = max(1, _AT_ONCE // time**2)
    largest = [
        (ours @ theirs.transpose(-2, -1)).abs().masked_fill(later, 0.0).max()
        for ours, theirs in zip(torch.split(q, rows), torch.split(k, rows), strict=True)
    ]
    return torch.stack(largest).max() / math.sqrt(branch.head_width)
