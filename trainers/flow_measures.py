"""The measurements of one moment of a model, see `keel_lab.gradient_flow` for what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.nn import functional

from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import Moment
from trainers.model import Transformer
from trainers.norm import RMSNorm
from trainers.probe import parts
from trainers.residual import AffineStep

_NONE = math.nan


@dataclass(frozen=True)
class Batch:
    """The sequences that every moment is measured on; `bf16`: under autocast, as the trial trains."""

    inputs: Int64[Tensor, "batch time"]
    targets: Int64[Tensor, "batch time"]
    bf16: bool = False

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(self.inputs.to(device), self.targets.to(device), self.bf16)


@dataclass(frozen=True)
class _Pass:
    """One forward and backward pass: L + 1 states, L branch outputs, and gradients of states and parameters."""

    loss: float
    states: list[Tensor]
    outputs: list[Tensor]
    state_grads: list[Tensor]
    weight_grads: dict[nn.Parameter, Tensor]


class _Constant(nn.Module):
    """A branch that gives what the real one gave, and lets no gradient through: detached."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output.detach()

    def forward(self, x: Tensor) -> Tensor:
        return self.output


def measure(
    step: int,
    model: Transformer,
    batch: Batch,
    start: Sequence[Tensor] | None = None,
    optimizer: torch.optim.AdamW | None = None,
) -> Moment:
    """Measures a model; its weights, their `grad` and the optimizer stay as they are.

    Args:
        step: updates so far.
        model: on the batch's device.
        batch: what it reads; a MoE's load-balancing loss is left out of the gradients.
        start: its parameters before the first update; None for an untrained model.
        optimizer: gives the second moments; None before the first update.
    """
    with torch.enable_grad():
        seen = _passed(model, batch)
        skip = _skip_only(model, seen, batch)
    last = seen.state_grads[-1].norm()
    steps, sublayers = list(model.stack.steps), range(len(model.stack.steps))
    with torch.no_grad():
        sums = [_sum(steps[at], seen.states[at], seen.outputs[at]) for at in sublayers]
        gains = [_gains(steps[at], model.stack.branches[at]) for at in sublayers]
        values = {
            names.STREAM_RMS: [_rms(state) for state in seen.states[:-1]],
            **{name: [one[name] for one in sums] for name in sums[0]},
            names.RADIAL: [_radial(steps[at], seen.states[at + 1], skip[at + 1]) for at in sublayers],
            names.SKIP_PRODUCT: [float(gradient.norm() / last) for gradient in skip[:-1]],
            names.STATE_GRAD: [float(gradient.norm()) for gradient in seen.state_grads[:-1]],
            names.LARGEST_GAIN: [max(found, default=_NONE) for found in gains],
            names.SMALLEST_GAIN: [min(found, default=_NONE) for found in gains],
            **_by_part(model, seen, start, optimizer),
        }
    return Moment(step, seen.loss, values)


def normed(model: Transformer) -> tuple[bool | None, ...]:
    """For each sub-layer whether a norm follows its sum; None where the step is no `AffineStep`."""
    return tuple(step.post is not None if isinstance(step, AffineStep) else None for step in model.stack.steps)


def _passed(model: Transformer, batch: Batch) -> _Pass:
    outputs: list[Tensor] = []
    hooks = [branch.register_forward_hook(lambda *seen: outputs.append(seen[2])) for branch in model.stack.branches]
    states: list[Tensor] = []
    try:
        with torch.autocast(batch.inputs.device.type, torch.bfloat16, enabled=batch.bf16):
            logits = model(batch.inputs, states)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten())
    finally:
        for hook in hooks:
            hook.remove()
    weights = list(model.parameters())
    found = torch.autograd.grad(loss, [*states, *weights], allow_unused=True, materialize_grads=True)
    gradients = dict(zip(weights, found[len(states) :], strict=True))
    return _Pass(float(loss.detach()), [one.detach() for one in states], outputs, list(found[: len(states)]), gradients)


def _skip_only(model: Transformer, seen: _Pass, batch: Batch) -> list[Tensor]:
    """The gradient at all L + 1 states when it flows back through skips and norms alone, from the true last one."""
    x = seen.states[0].detach().requires_grad_()
    kept = [x]
    with torch.autocast(x.device.type, torch.bfloat16, enabled=batch.bf16):
        for step, output in zip(model.stack.steps, seen.outputs, strict=True):
            x = step(x, _Constant(output))
            kept.append(x)
    last = seen.state_grads[-1]
    return [*torch.autograd.grad(kept[-1], kept[:-1], last), last]


def _sum(step: nn.Module, x: Tensor, output: Tensor) -> dict[str, float]:
    """The two terms of an affine step's sum."""
    if not isinstance(step, AffineStep):
        none = dict.fromkeys((names.SKIP_RMS, names.SUM_RMS, names.COSINE), _NONE)
        return {**none, names.BRANCH_RMS: _rms(output)}
    skip = step.alpha * (x if step.skip is None else step.skip(x)).float()
    branch = step.gamma * (output if step.mid is None else step.mid(output)).float()
    product = skip.norm() * branch.norm()
    return {
        names.SKIP_RMS: _rms(skip),
        names.BRANCH_RMS: _rms(branch),
        names.SUM_RMS: _rms(skip + branch),
        names.COSINE: float((skip * branch).sum() / product) if product > 0 else 0.0,
    }


def _radial(step: nn.Module, out: Tensor, gradient: Tensor) -> float:
    """Share of the squared gradient along a norm's direction; a gain is taken out of both, as it stands behind it."""
    if not isinstance(step, AffineStep):
        return _NONE
    if not isinstance(step.post, RMSNorm):
        return 0.0
    direction = functional.normalize(out / step.post.gain, dim=-1)
    inner = gradient * step.post.gain
    return float((inner * direction).sum(-1).square().sum() / inner.square().sum())


def _gains(*modules: nn.Module) -> list[float]:
    """The |gain|s at the extremes of each norm of these modules."""
    norms = [module for one in modules for module in one.modules() if isinstance(module, RMSNorm)]
    return [float(end) for norm in norms for end in norm.gain.abs().aminmax()]


def _by_part(
    model: Transformer, seen: _Pass, start: Sequence[Tensor] | None, optimizer: torch.optim.AdamW | None
) -> dict[str, list[float]]:
    first = dict(zip(model.parameters(), start, strict=True)) if start else {}
    found: dict[str, list[float]] = {name: [] for name in names.PART_MEASURES}
    for part in parts(model).values():
        matrices = [one for one in part if one.ndim >= 2]
        found[names.WEIGHT_GRAD].append(math.hypot(*(float(seen.weight_grads[one].norm()) for one in part)))
        found[names.MATRIX_GRAD].append(math.hypot(*(float(seen.weight_grads[one].norm()) for one in matrices)))
        moved = [float((one - first[one]).norm()) for one in matrices if first]
        size = [float(first[one].norm()) for one in matrices if first]
        drift = math.hypot(*moved) / math.hypot(*size) if first and matrices else 0.0 if matrices else _NONE
        found[names.WEIGHT_DRIFT].append(drift)
        found[names.TINY_MOMENTS].append(_tiny(part, optimizer))
    return found


def _tiny(part: Sequence[nn.Parameter], optimizer: torch.optim.AdamW | None) -> float:
    """Share of the entries whose root of the second moment is below eps, so that eps decides their update."""
    if optimizer is None or not all(optimizer.state.get(one) for one in part):
        return _NONE
    group = optimizer.param_groups[0]
    below = total = 0
    for one in part:
        state = optimizer.state[one]
        corrected = state["exp_avg_sq"] / (1 - group["betas"][1] ** float(state["step"]))
        below += int((corrected.sqrt() < group["eps"]).sum())
        total += one.numel()
    return below / total


def _rms(x: Tensor) -> float:
    return float(x.float().square().mean().sqrt())
