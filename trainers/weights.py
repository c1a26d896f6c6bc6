"""Whether a model's weights are still numbers."""

from __future__ import annotations

from torch import nn


def weights_finite(model: nn.Module) -> bool:
    """Whether every weight is finite; reads all of them."""
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())
