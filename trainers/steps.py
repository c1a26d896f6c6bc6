"""Steps that are no `trainers.residual.Affine`."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from trainers.norm import RMSNorm
from trainers.residual import Stream

Streams = Float[Tensor, "2 *batch time width"]

CARRY_BIAS = -2.0  # Highway: the gate is 0.12 at first


class HighwayStep(nn.Module):
    """x' = t * F(x) + (1 - t) * x, t = sigmoid(transform x + bias), with a full matrix (arXiv 1505.00387, eq. 3).

    The matrix holds no values until `trainers.initialisation.initialise` fills it.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.transform = nn.Parameter(torch.empty(width, width))
        self.bias = nn.Parameter(torch.full((width,), CARRY_BIAS))

    def forward(self, x: Stream, branch: nn.Module) -> Stream:
        """One sub-layer. The gate is computed in the stream's precision, which it multiplies."""
        with torch.autocast(x.device.type, enabled=False):
            gate = torch.sigmoid(functional.linear(x, self.transform, self.bias))
        return torch.lerp(x, branch(x).to(x.dtype), gate)


class BothStreams(nn.Module):
    """ResiDual: x0 becomes both streams, stacked along a new first axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()

    def forward(self, x: Stream) -> Streams:
        """Stacks."""
        return torch.stack((x, x))


class DualStep(nn.Module):
    """ResiDual: x' = post(x + F(x)), d' = d + F(x) (arXiv 2304.14802, section 2)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.post = RMSNorm(width, eps)

    def forward(self, streams: Streams, branch: nn.Module) -> Streams:
        """One sub-layer; the sums are in the streams' precision."""
        x, gathered = streams
        out = branch(x)
        return torch.stack((self.post(x + out), gathered + out))


class DualExit(nn.Module):
    """ResiDual: what the head reads, x + final(d)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.final = RMSNorm(width, eps)

    def forward(self, streams: Streams) -> Stream:
        """Joins the two streams."""
        joined: Tensor = streams[0] + self.final(streams[1])
        return joined
