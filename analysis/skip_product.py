"""What theory says of the gradient that flows back through skips and norms alone, beside what was measured.

With its branch detached, a sub-layer x' = N(a x + F) multiplies a gradient by a / rms(a x + F): the norm divides by the
rms of what it is given. If branch and stream are uncorrelated, rms(a x + F)^2 = a^2 m^2 + s^2 with m = rms(x) and s =
rms(F); without a norm the factor is a. So

    product over l of a_l / sqrt(a_l^2 m_l^2 + s_l^2 + eps)        (`predicted`, from the measured m and s)

and m = 1 behind a norm. With branches of unit rms (`of_unit_branches`) that is 2^(-L/2) for Post-LN (a = 1), and for
Keel (a = L) (1 + 1/L^2)^(-L/2), which tends to 1; Pre-LN has 1 in any case. All of it is derived from the update rule;
it is the content of the Keel paper's analysis (arXiv 2601.19895, which the issue cites by eqs. 14, 15, 18, 19 and 27),
but the numbers are not matched one by one, as the paper's text is not part of this project.

What the prediction leaves out is measured too, so that measured / predicted is a product of three factors: the
correlation of branch and stream; the radial part of the gradient, which a norm removes (I - y y^T / d); and the rest,
i.e. gains that are not 1, and tokens whose rms differs from that of the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import Flow, Moment


@dataclass(frozen=True)
class SkipProduct:
    """|gradient at the entry of sub-layer `first`| / |gradient after the last sub-layer|, all branches detached.

    Attributes:
        predicted: from the measured rms of streams and branches; NaN, like what follows, if a step is no affine one.
        of_unit_branches: the same with branches and streams of unit rms, and without eps.
        correlation, radial, rest: factors whose product is measured / predicted.
    """

    first: int
    measured: float
    predicted: float
    of_unit_branches: float
    correlation: float
    radial: float
    rest: float

    @property
    def gap(self) -> float:
        """Measured / predicted - 1."""
        return self.measured / self.predicted - 1 if self.predicted else math.nan


def skip_product(flow: Flow, moment: Moment, eps: float, first: int) -> SkipProduct:
    """Measured and predicted product of the sub-layers from `first` on.

    Args:
        flow: which sub-layers end in a norm.
        moment: the measurements.
        eps: of the norms.
        first: 0 for all; 2 leaves out the first block, whose norm lifts the embedding to unit rms.
    """
    values, measured = moment.values, moment.values[names.SKIP_PRODUCT][first]
    predicted = unit = correlation = radial = 1.0
    for at in range(first, len(flow.normed)):
        normed = flow.normed[at]
        if normed is None:
            return SkipProduct(first, measured, *[math.nan] * 5)
        skip, branch = values[names.SKIP_RMS][at], values[names.BRANCH_RMS][at]
        alpha = skip / values[names.STREAM_RMS][at]
        predicted *= alpha
        unit *= alpha
        if normed:
            predicted /= math.sqrt(skip**2 + branch**2 + eps)
            unit /= math.sqrt(alpha**2 + 1)
            correlation *= math.sqrt((skip**2 + branch**2 + eps) / (values[names.SUM_RMS][at] ** 2 + eps))
            radial *= math.sqrt(1 - values[names.RADIAL][at])
    rest = measured / (predicted * correlation * radial) if predicted * radial else math.nan
    return SkipProduct(first, measured, predicted, unit, correlation, radial, rest)
