"""The residual wiring: how the L branches of a decoder and its norms are joined into one stream.

An `Architecture` says which step stands at each sub-layer; `ResidualStack` builds the steps around branches that are
handed to it. The branches may be attention and FFN, or the toy branch of the reference vectors: the wiring is the same
class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trainers.norm import Factor, RMSNorm

Stream = Float[Tensor, "*batch time width"]
Factory = Callable[[int, float], nn.Module]  # (width, eps) -> module; RMSNorm itself is one
SUBLAYERS = 2  # of a block: attention and FFN
HeadNorm = Literal["none", "qk", "qkv"]


@dataclass(frozen=True)
class Site:
    """The place of one sub-layer.

    Attributes:
        index: l, counted from 0; even ones are attention, odd ones FFN.
        sublayers: L.
    """

    index: int
    sublayers: int

    @property
    def block(self) -> int:
        """The block it belongs to, counted from 0."""
        return self.index // 2

    @property
    def is_attention(self) -> bool:
        """Whether its branch is attention."""
        return self.index % 2 == 0


@dataclass(frozen=True)
class BranchOptions:
    """What an architecture asks of the branches themselves.

    Attributes:
        head_norm: which of queries, keys and values are normalised per head, before RoPE.
    """

    head_norm: HeadNorm = "none"


@dataclass(frozen=True)
class Affine:
    """The default step, post(alpha * skip(x) + gamma * mid(F(scale * pre(x)))); an absent module is the identity."""

    pre: Factory | None = None
    mid: Factory | None = None
    skip: Factory | None = None
    post: Factory | None = None
    alpha: float = 1.0
    gamma: float = 1.0
    scale: float = 1.0

    def __call__(self, width: int, eps: float) -> nn.Module:
        """Builds the module of this step, so that an `Affine` is itself a `Factory`."""
        return AffineStep(self, width, eps)


class AffineStep(nn.Module):
    """An `Affine` with its norms."""

    def __init__(self, form: Affine, width: int, eps: float) -> None:
        super().__init__()
        self.pre = form.pre(width, eps) if form.pre else None
        self.mid = form.mid(width, eps) if form.mid else None
        self.skip = form.skip(width, eps) if form.skip else None
        self.post = form.post(width, eps) if form.post else None
        self.alpha, self.gamma, self.scale = float(form.alpha), float(form.gamma), float(form.scale)

    def forward(self, x: Stream, branch: nn.Module) -> Stream:
        """One sub-layer. The sum is in the stream's precision, even where autocast made the branch bf16."""
        inner = x if self.pre is None else self.pre(x)
        if self.scale != 1.0:
            inner = self.scale * inner
        out = branch(inner)
        if self.mid is not None:
            out = self.mid(out)
        if self.skip is not None:
            x = self.skip(x)
        # one kernel each; the scalar is applied after promotion to the stream's dtype, so nothing is rounded to bf16
        x = (
            torch.add(out, x, alpha=self.alpha)
            if self.gamma == 1.0
            else torch.add(self.alpha * x, out, alpha=self.gamma)
        )
        return x if self.post is None else self.post(x)

    def extra_repr(self) -> str:
        """The constants, for `print(model)`."""
        return f"alpha={self.alpha:g}, gamma={self.gamma:g}, scale={self.scale:g}"


@dataclass(frozen=True)
class Architecture:
    """A residual and normalisation scheme at one depth; every constant is a Python float by now.

    Attributes:
        rule: the step at a site: an `Affine`, or any factory of a module with `forward(stream, branch) -> stream`.
        enter: factory of a module from x0 to the stream; absent = identity. A scheme with two streams stacks them here
            along a new first axis, and its `exit` joins them.
        exit: factory of a module from the last stream to what the head reads, e.g. the final norm; absent = identity.
        init_gain: factor on the initial weights by kind of matrix (q, k, v, o, gate, up, down); absent = 1.
        branch_options: what it asks of the branches.
        calibrate: called once, before training and without gradients, with the stack and the x0 of one batch.
    """

    rule: Callable[[Site], Factory]
    enter: Factory | None = None
    exit: Factory | None = None
    init_gain: Mapping[str, float] = field(default_factory=dict)
    branch_options: BranchOptions = BranchOptions()
    calibrate: Callable[[ResidualStack, Tensor], None] | None = None


def vector(width: int, eps: float) -> nn.Module:
    """The factory of a learnt vector of ones, one factor an entry of the stream."""
    return Factor(width)


def scalar(start: float) -> Factory:
    """The factory of one learnt factor for the whole stream."""
    return lambda width, eps: Factor(1, start)


def final_norm(wanted: bool) -> Factory | None:
    """The `exit` of an architecture with, or without, a norm before the head."""
    return RMSNorm if wanted else None


class ResidualStack(nn.Module):
    """L sub-layers: exit(step_{L-1}( ... step_0(enter(x0), F_0) ... , F_{L-1})).

    Args:
        architecture: which step stands where.
        branches: F_0 .. F_{L-1}, each from (*batch, time, width) to the same shape.
        width: of the stream.
        eps: of every norm.

    Attributes:
        checkpointed: whether each block keeps its input alone and is computed again for its gradients (Chen et al.,
            arXiv 1604.06174, section 4.1). The gradients are the same bit for bit.
    """

    def __init__(self, architecture: Architecture, branches: Sequence[nn.Module], width: int, eps: float) -> None:
        super().__init__()
        sites = [Site(index, len(branches)) for index in range(len(branches))]
        self.enter = architecture.enter(width, eps) if architecture.enter else None
        self.branches = nn.ModuleList(branches)
        self.steps = nn.ModuleList(architecture.rule(site)(width, eps) for site in sites)
        self.exit = architecture.exit(width, eps) if architecture.exit else None
        self.checkpointed = False

    def forward(self, x: Stream, states: list[Tensor] | None = None) -> Stream:
        """Runs the stack.

        Args:
            x: x0, (*batch, time, width).
            states: if given, the stream at entry and after each sub-layer is appended (L + 1 tensors of the graph),
                and no block is checkpointed.
        """
        if self.enter is not None:
            x = self.enter(x)
        if states is None and self.checkpointed and torch.is_grad_enabled():
            for first in range(0, len(self.branches), SUBLAYERS):
                x = checkpoint(self._block, x, first, use_reentrant=False, preserve_rng_state=False)  # nothing is drawn
            return x if self.exit is None else self.exit(x)
        if states is not None:
            states.append(x)
        for step, branch in zip(self.steps, self.branches, strict=True):
            x = step(x, branch)
            if states is not None:
                states.append(x)
        return x if self.exit is None else self.exit(x)

    def _block(self, x: Stream, first: int) -> Stream:
        """The sub-layers of the block that begins with sub-layer `first`."""
        for index in range(first, min(first + SUBLAYERS, len(self.branches))):
            x = self.steps[index](x, self.branches[index])
        return x
