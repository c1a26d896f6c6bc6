"""The table of `keel-lab probe`: a row a trial and moment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from analysis.skip_product import skip_product
from analysis.tables.layout import Group, Table
from keel_lab import gradient_flow as names
from keel_lab.gradient_flow import Moment, Probed

BEYOND = 2  # the first sub-layer after block 0

NOTES = (
    "One seed and one batch of held-out sequences a row, the same for all moments of a trial; medians are over "
    "sub-layers. No interval.",
    "F/stream: rms of what the branch adds over that of the scaled stream beside it.",
    "skip-only gradient: its norm at the entry of block 1 over that after the last sub-layer, all branches detached. "
    "predicted: the product of alpha / sqrt(alpha^2 m^2 + s^2 + eps) over the norms, m and s the measured rms of "
    "stream and branch; unit F: the same with m = s = 1, i.e. 2^(-n/2) for n norms of Post-LN. gap: measured / "
    "predicted - 1.",
    "gap = correlation x radial x rest: branch and stream that are not uncorrelated; the part of the gradient along a "
    "norm's output, which the norm removes; gains that are not 1 and tokens of unequal rms.",
    "whole: the gap of the product down to the embedding, whose weak rms the first norm lifts to 1.",
    "gradient: norm over all parameters, before clipping; block 0, embedding: their shares of its square; block 0 / "
    "later: of the matrices alone, without gains, block 0's norm over the median of later blocks'.",
    "gains: the smallest and largest |gain| of any norm in a sub-layer. drift: |W - W0| / |W0| of a sub-layer. v < "
    "eps: share of a sub-layer's entries for which the root of Adam's second moment is below eps.",
)


def branch_to_stream(moment: Moment) -> float:
    """Median over sub-layers of the rms of what the branch adds over that of the scaled stream beside it."""
    pairs = zip(moment.values[names.BRANCH_RMS], moment.values[names.SKIP_RMS], strict=True)
    return _median(branch / stream for branch, stream in pairs)


def record(probed: Probed, moment: Moment) -> dict[str, Any]:
    """The row as numbers; NaN where there is none."""
    trial, flow, values = probed.planned.trial, probed.flow, moment.values
    parts = {name: at for at, name in enumerate(flow.parts)}
    squares = [norm**2 for norm in values[names.WEIGHT_GRAD]]
    total, inner = sum(squares), [at for name, at in parts.items() if name.startswith("block ")]
    beyond = skip_product(flow, moment, trial.model.norm_eps, BEYOND if len(flow.normed) > BEYOND else 0)
    whole = skip_product(flow, moment, trial.model.norm_eps, 0)
    first = sum(squares[at] for name, at in parts.items() if name.startswith("block 0 "))
    halves = [values[names.MATRIX_GRAD][at] for at in inner]
    matrices = [math.hypot(*pair) for pair in zip(halves[::2], halves[1::2], strict=True)]
    later = _median(matrices[1:])
    return {
        "trial": probed.planned.name,
        "trial_id": trial.id,
        "architecture": trial.architecture,
        "blocks": trial.blocks,
        "sublayers": trial.sublayers,
        "width": trial.model.width,
        "step": moment.step,
        "loss": moment.loss,
        "branch_to_stream": branch_to_stream(moment),
        "skip_measured": beyond.measured,
        "skip_predicted": beyond.predicted,
        "skip_unit_branches": beyond.of_unit_branches,
        "skip_gap": beyond.gap,
        "skip_gap_correlation": beyond.correlation,
        "skip_gap_radial": beyond.radial,
        "skip_gap_rest": beyond.rest,
        "skip_whole_measured": whole.measured,
        "skip_whole_predicted": whole.predicted,
        "skip_whole_gap": whole.gap,
        "grad_norm": math.sqrt(total),
        "grad_share_block_0": first / total if total else math.nan,
        "matrix_grad_block_0_to_later": matrices[0] / later if later > 0 else math.nan,
        "grad_share_embedding": squares[parts["embedding"]] / total if total else math.nan,
        "gain_smallest": min(_known(values[names.SMALLEST_GAIN]), default=math.nan),
        "gain_largest": max(_known(values[names.LARGEST_GAIN]), default=math.nan),
        "drift_median": _median([values[names.WEIGHT_DRIFT][at] for at in inner]),
        "tiny_moments_median": _median([values[names.TINY_MOMENTS][at] for at in inner]),
    }


def records(probed: Iterable[Probed]) -> list[dict[str, Any]]:
    """All rows, moments of a trial together."""
    return [record(one, moment) for one in probed for moment in one.flow.moments]


def layout(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """The table in words."""
    groups = (
        Group("", ("loss", "F/stream")),
        Group("skip-only gradient beyond block 0", ("measured", "predicted", "unit F", "gap")),
        Group("gap = product of", ("correlation", "radial", "rest")),
        Group("whole", ("gap",)),
        Group("gradient", ("norm", "block 0", "embedding", "block 0 / later")),
        Group("weights", ("gains", "drift", "v < eps")),
    )
    return Table(title, ("trial", "width", "step"), groups, tuple(tuple(_words(row)) for row in rows), NOTES)


def _words(row: dict[str, Any]) -> Iterator[str]:
    yield from (row["trial"], str(row["width"]), str(row["step"]) if row["step"] else names.INIT)
    yield from (_number(row["loss"]), _number(row["branch_to_stream"]))
    yield from (_number(row[f"skip_{name}"]) for name in ("measured", "predicted", "unit_branches"))
    yield _percent(row["skip_gap"])
    yield from (_factor(row[f"skip_gap_{name}"]) for name in ("correlation", "radial", "rest"))
    yield _percent(row["skip_whole_gap"])
    yield _number(row["grad_norm"])
    yield from (_share(row[f"grad_share_{name}"]) for name in ("block_0", "embedding"))
    yield _number(row["matrix_grad_block_0_to_later"])
    low, high = row["gain_smallest"], row["gain_largest"]
    yield "-" if math.isnan(high) else f"{_factor(low)} .. {_factor(high)}"
    yield _number(row["drift_median"])
    yield _share(row["tiny_moments_median"])


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _factor(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.2e}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:+.2f}%" if abs(value) < 10 else f"x {value + 1:.3g}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.3g}%"


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _median(values: Iterable[float]) -> float:
    known = _known(values)
    return statistics.median(known) if known else math.nan
