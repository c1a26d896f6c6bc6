"""How often the 90% intervals of Max LR and of ratios cover the truth, in simulated sweeps whose truth is known.

Every number is the share of `--sweeps` simulated cells whose stated interval holds the true median; a cell without an
interval counts under `none` only. `width` is the mean ratio of the ends, an open end standing at its bound. All
distributions see the same uniform numbers. The standard deviation of ln LR within a cell is 0.05 to 0.3 in this
project's own sweeps; being a scale, it changes the width alone.

Run: python benchmarks/interval_coverage.py
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.censored import Bounds
from analysis.intervals import Interval, interval
from analysis.ratios import paired_ratio
from analysis.seed_reading import SeedReading

Floats = NDArray[np.float64]
Quantiles = Callable[[Floats], Floats]

SEEDS = (2, 3, 4, 5, 10)
SEEDS_OF_PAIRS = (3, 5, 10)
CENSORED = (0.0, 0.2, 0.4)
CORRELATION = (
    0.5  # between the two cells of a pair, and within a data seed, before the marginal distribution is applied
)
RAMP_STEP = math.log(1.0155)  # of the quickstart's ramp, on ln LR

_normal = np.vectorize(NormalDist().inv_cdf, otypes=[float])
_uniform = np.vectorize(NormalDist().cdf, otypes=[float])
_grid = np.linspace(-1.5, 0.6, 4001)
_two_peaks = 0.8 * _uniform(_grid / 0.1) + 0.2 * _uniform((_grid + 0.8) / 0.1)

DISTRIBUTIONS: dict[str, Quantiles] = {
    "normal, sd 0.05": lambda u: 0.05 * _normal(u),
    "normal, sd 0.3": lambda u: 0.3 * _normal(u),
    "in ramp steps": lambda u: np.floor(0.1 * _normal(u) / RAMP_STEP) * RAMP_STEP,
    "skewed up": lambda u: -0.15 * np.log1p(-u),
    "skewed down": lambda u: 0.15 * np.log(u),
    "flat": lambda u: 0.5 * u,
    "heavy tails (t2)": lambda u: 0.1 * (2 * u - 1) / np.sqrt(2 * u * (1 - u)),
    "20% diverge early": lambda u: np.interp(u, _two_peaks, _grid),
}
"""Quantile functions of ln LR within a cell."""


@dataclass
class Tally:
    """What became of the intervals of one row and censoring."""

    stated: int = 0
    covered: int = 0
    open_ended: int = 0
    width: float = 0.0  # sum of ln(high / low), an open end standing at its bound
    absent: int = 0

    def add(self, found: Interval | None, truth: float) -> None:
        """Counts one interval of exp(truth)."""
        if found is None:
            self.absent += 1
            return
        above = found.low_open or found.low <= math.exp(truth) * (1 + 1e-12)
        below = found.high_open or found.high >= math.exp(truth) * (1 - 1e-12)
        self.stated += 1
        self.covered += above and below
        self.open_ended += found.low_open or found.high_open
        self.width += math.log(found.high / found.low)

    @property
    def coverage(self) -> float:
        """Of the stated intervals."""
        return self.covered / self.stated

    def words(self) -> str:
        """Coverage, mean width as a factor, share of open ends and of cells without an interval."""
        total = self.stated + self.absent
        width = math.exp(self.width / self.stated)
        return f"{self.coverage:8.1%} {width:6.2f} {self.open_ended / total:5.0%} {self.absent / total:5.0%}"


def max_lr(quantiles: Quantiles, n: int, cut: float, sweeps: int, repeats: int = 1) -> Tally:
    """Cells of n data seeds with `repeats` correlated initial seeds each; the ramp ends at quantile 1 - cut."""
    tally, truth, peak = Tally(), _at(quantiles, 0.5), _at(quantiles, 1 - cut) if cut else math.inf
    clusters = np.repeat(np.arange(n), repeats).tolist()
    for lrs in quantiles(_alike(n, sweeps, repeats)).reshape(sweeps, n * repeats):
        tally.add(interval([_reading(lr, peak) for lr in lrs.tolist()], clusters), truth)
    return tally


def ratio(quantiles: Quantiles, n: int, cut: float, sweeps: int) -> Tally:
    """Two cells of one distribution, paired by seed: the median of their ratio is exactly 1 by symmetry."""
    tally, peak = Tally(), _at(quantiles, 1 - cut) if cut else math.inf
    for pairs in quantiles(_alike(n, sweeps, 2)):
        cell, reference = (
            [SeedReading.between(*_reading(lr, peak), seed, seed) for seed, lr in enumerate(lrs)]
            for lrs in pairs.T.tolist()
        )
        found = paired_ratio(cell, reference)
        tally.add(None if found is None else found.interval, 0.0)
    return tally


def _alike(n: int, sweeps: int, repeats: int) -> Floats:
    """Uniform numbers of shape (sweeps, n, repeats), correlated along the last axis."""
    random = np.random.default_rng(2026)
    own = random.random((sweeps, n, repeats))
    if repeats == 1:
        return own
    shared = _normal(random.random((sweeps, n, 1)))
    uniform: Floats = _uniform(math.sqrt(CORRELATION) * shared + math.sqrt(1 - CORRELATION) * _normal(own))
    return uniform


def _at(quantiles: Quantiles, level: float) -> float:
    return float(quantiles(np.array([level]))[0])


def _reading(ln_lr: float, peak: float) -> Bounds:
    return Bounds(math.exp(peak), math.inf) if ln_lr >= peak else Bounds(math.exp(ln_lr), math.exp(ln_lr))


def rows(sweeps: int) -> Iterator[tuple[str, int, list[Tally]]]:
    """(what was measured, n, one tally a censoring)."""
    some = ("normal, sd 0.3", "skewed down", "20% diverge early")
    for name, quantiles in DISTRIBUTIONS.items():
        for n in SEEDS:
            yield f"Max LR, {name}", n, [max_lr(quantiles, n, cut, sweeps) for cut in CENSORED]
    for name in some:
        for n in SEEDS_OF_PAIRS:
            found = [max_lr(DISTRIBUTIONS[name], n, cut, sweeps, repeats=2) for cut in CENSORED]
            yield f"Max LR x 2 init seeds, {name}", n, found
    for name in some:
        for n in SEEDS_OF_PAIRS:
            yield f"ratio, {name}", n, [ratio(DISTRIBUTIONS[name], n, cut, sweeps) for cut in CENSORED]


def main() -> None:
    """Prints a row a distribution and n, and the extremes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=1000, help="simulated cells a row and censoring")
    sweeps = parser.parse_args().sweeps
    error = math.sqrt(0.9 * 0.1 / sweeps)
    print(f"coverage of the stated 90% intervals, {sweeps} simulated sweeps each (standard error {error:.1%})")
    print(" " * 48 + "".join(f"| {f'right-censored {cut:.0%}':<28}" for cut in CENSORED))
    print(f"{'what':<43}{'n':>4} " + f"| {'covered':>8} {'width':>6} {'open':>5} {'none':>5} " * len(CENSORED))
    shares = []
    for name, n, tallies in rows(sweeps):
        print(f"{name:<43}{n:>4} " + "".join(f"| {tally.words()} " for tally in tallies), flush=True)
        shares += [tally.coverage for tally in tallies]
    print(f"least {min(shares):.1%}, most {max(shares):.1%} of {len(shares)}; asked for: 85% to 95%")


if __name__ == "__main__":
    main()
