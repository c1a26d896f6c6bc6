"""What the streaming detector costs a step: the least mean over some repeats, on a healthy and on a suspect curve.

Run: python benchmarks/detector_cost.py
"""

from __future__ import annotations

import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from keel_lab.curve import Step
from keel_lab.detect.streaming import StreamingDetector
from keel_lab.detect.thresholds import Thresholds

H1 = 3.2
STEPS = 20_000
REPEATS = 15
ALLOWED = 5.0  # microseconds a step


def healthy() -> list[Step]:
    """A falling curve with a paired batch difficulty, as a trainer reports it."""
    r = random.Random(0)
    batches = [r.gauss(0.0, 0.25) for _ in range(STEPS)]
    trend = [2.0 + 3.5 * (t + 1) ** -0.3 for t in range(STEPS)]
    return [
        Step(t + 1, trend[t] + b + r.gauss(0.0, 0.1), 1e-3, H1 + b, 1.0, tokens=256 * t) for t, b in enumerate(batches)
    ]


def cost(steps: list[Step], thresholds: Thresholds) -> float:
    """Least mean microseconds a step."""
    best = math.inf
    for _ in range(REPEATS):
        update = StreamingDetector(thresholds, H1).update
        began = time.perf_counter()
        for step in steps:
            update(step)
        best = min(best, time.perf_counter() - began)
    return best / len(steps) * 1e6


def main() -> None:
    """Prints the cost of both curves beside what is allowed."""
    calm = healthy()
    risen = [step._replace(loss=step.loss + 2.0) if step.step > 200 else step for step in calm]
    for name, steps, thresholds in (
        ("healthy", calm, Thresholds()),
        ("suspect", risen, Thresholds(confirm_samples=10 * STEPS)),
    ):
        print(f"{name}: {cost(steps, thresholds):.2f} microseconds a step (allowed: {ALLOWED:.0f}; n = {STEPS} steps)")


if __name__ == "__main__":
    main()
