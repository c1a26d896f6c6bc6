"""Where runs begin to diverge in a plane of two parameters: a logistic regression on a quadratic, with a ridge.

It says at which settings half of the runs diverge, as far as the points tell. A search puts its points where it is
good, so the line is well placed there and vague elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 3  # points of each kind, below which there is no line
RIDGE = 0.1
ROUNDS = 50


@dataclass(frozen=True)
class Boundary:
    """The probability of divergence on a grid.

    Attributes:
        x, y: of shape (n,), the grid's places.
        probability: of shape (n, n), rows along y.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    probability: NDArray[np.float64]


def boundary(
    kept: Sequence[tuple[float, float]], lost: Sequence[tuple[float, float]], size: int = 80
) -> Boundary | None:
    """The fit over the box that holds all points; None with too few points of either kind."""
    import numpy as np

    if min(len(kept), len(lost)) < LEAST:
        return None
    places = np.array([*kept, *lost], dtype=float)
    target = np.array([0.0] * len(kept) + [1.0] * len(lost))
    low, span = places.min(axis=0), np.ptp(places, axis=0)
    if not (span > 0).all():
        return None
    weights = _fit(_features((places - low) / span), target)
    along = np.linspace(0.0, 1.0, size)
    across, up = np.meshgrid(along, along)
    grid = _features(np.column_stack([across.ravel(), up.ravel()]))
    probability = _sigmoid(grid @ weights).reshape(size, size)
    return Boundary(low[0] + along * span[0], low[1] + along * span[1], probability)


def _features(unit: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    x, y = unit[:, 0] - 0.5, unit[:, 1] - 0.5
    return np.column_stack([np.ones_like(x), x, y, x * y, x * x, y * y])


def _fit(features: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's method on the penalised likelihood; the intercept is not penalised."""
    import numpy as np

    penalty = RIDGE * np.eye(features.shape[1])
    penalty[0, 0] = 1e-9
    weights = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        probability = _sigmoid(features @ weights)
        slope = features.T @ (probability - target) + penalty @ weights
        curvature = (features * (probability * (1 - probability))[:, None]).T @ features + penalty
        step = np.linalg.solve(curvature, slope)
        weights = weights - step / max(1.0, float(np.abs(step).max()) / 5.0)
    return weights


def _sigmoid(value: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    found: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(value, -30.0, 30.0)))
    return found
