"""Simulated loss curves with known truth: trend + noise, and a rise that begins right after a known step."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator

from keel_lab.curve import Step

Noise = Callable[[random.Random], Iterator[float]]
Trend = Callable[[int], float]

TRENDS: dict[str, Trend] = {
    "power law": lambda t: 2.0 + 3.5 * t**-0.3,
    "flat": lambda t: 3.0,
    "steep start": lambda t: 2.4 + 8.0 * math.exp(-t / 15.0) + 0.5 * math.exp(-t / 300.0),
    "very steep start": lambda t: 2.4 + 8.0 * math.exp(-t / 3.0),
    "plateau that falls": lambda t: 5.8 + 4.7 * math.exp(-t / 40.0) - 1.8 / (1.0 + math.exp(-(t - 1000.0) / 80.0)),
    "late start": lambda t: 5.5 if t < 40 else 2.4 + 3.1 * math.exp(-(t - 40) / 20.0),
    "decaying bump": lambda t: 2.0 + 3.5 * t**-0.3 + (0.3 * math.exp(-(t - 800) / 8.0) if t >= 800 else 0.0),
}


def gaussian(sigma: float) -> Noise:
    return lambda r: iter(lambda: r.gauss(0.0, sigma), None)  # type: ignore[arg-type]


def student3(sigma: float) -> Noise:
    """Student t with 3 degrees of freedom, of standard deviation `sigma`."""

    def draw(r: random.Random) -> Iterator[float]:
        while True:
            chi = sum(r.gauss(0.0, 1.0) ** 2 for _ in range(3))
            yield sigma * r.gauss(0.0, 1.0) / math.sqrt(chi)

    return draw


def correlated(sigma: float, rho: float) -> Noise:
    """AR(1) of standard deviation `sigma`."""

    def draw(r: random.Random) -> Iterator[float]:
        x = r.gauss(0.0, sigma)
        while True:
            yield x
            x = rho * x + math.sqrt(1.0 - rho * rho) * r.gauss(0.0, sigma)

    return draw


def with_outliers(sigma: float, height: float, rate: float, length: int = 1) -> Noise:
    """Gaussian noise in which a share `rate` of the steps starts an outlier of `length` steps."""

    def draw(r: random.Random) -> Iterator[float]:
        while True:
            repeats = length if r.random() < rate else 0
            for _ in range(repeats):
                yield height + r.gauss(0.0, sigma)
            yield r.gauss(0.0, sigma)

    return draw


def switching(first: float, then: float, at: int) -> Noise:
    """Noise of another sigma from step `at` on, as after a change of the batch size."""

    def draw(r: random.Random) -> Iterator[float]:
        t = 0
        while True:
            t += 1
            yield r.gauss(0.0, first if t < at else then)

    return draw


RISES: dict[str, Callable[[int], float]] = {
    "jump": lambda u: 0.8,
    "collapse": lambda u: 0.8 / (1.0 + math.exp(-(u - 20.0) / 5.0)),
    "creep of 0.01 a step": lambda u: 0.01 * u,
    "creep of 0.003 a step": lambda u: 0.003 * u,
}


def losses(trend: Trend, noise: Noise, steps: int, seed: object) -> list[float]:
    drawn = noise(random.Random(str(seed)))
    return [trend(t) + next(drawn) for t in range(1, steps + 1)]


def rising(trend: Trend, rise: Callable[[int], float], last_good: int) -> Trend:
    return lambda t: trend(t) + (rise(t - last_good) if t > last_good else 0.0)


def bf16(value: float) -> float:
    """Rounded to 8 significant bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 256.0) / 256.0, exponent)


def log_ramp(step: int, steps: int = 600) -> float:
    return float(1e-4 * 1000.0 ** (min(step, steps) / steps))


def curve(values: Iterable[float], stride: int = 1, lr: Callable[[int], float] = lambda step: 1e-3) -> list[Step]:
    numbers = (1 + i * stride for i in range(10**9))
    return [Step(step, value, lr(step)) for step, value in zip(numbers, values, strict=False)]
