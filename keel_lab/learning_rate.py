"""The learning rate at each step of a schedule, as plain arithmetic shared by trainer, detector and report."""

from __future__ import annotations

import math

from keel_lab.settings import AnySchedule, ForkSchedule, GridSchedule, RampSchedule


def lr_at(schedule: AnySchedule, step: int) -> float:
    """The LR that update `step` (1-based) uses.

    A ramp reaches `peak_lr` exactly at `steps` and holds it after (a run still suspect at the peak holds it). Linear:
    from + (peak - from) * step / steps, so the paper's ramp (from 0 to 5e-2 in 5,000) takes 1e-5 a step. Log: geometric
    from `from_lr` at step 1. A grid schedule warms up linearly from 0, then follows its shape. A fork follows its
    trunk up to the fork, then holds its own LR.

    Args:
        schedule: a ramp, a grid schedule, or a fork of one.
        step: 1-based update number.

    Raises:
        ValueError: if step < 1.
    """
    if step < 1:
        raise ValueError(f"step counts from 1, got {step}")
    if isinstance(schedule, ForkSchedule):
        return lr_at(schedule.trunk, step) if step <= schedule.at else schedule.lr
    if isinstance(schedule, RampSchedule):
        return _ramp(schedule, min(step, schedule.steps))
    return _grid(schedule, min(step, schedule.steps))


def _ramp(ramp: RampSchedule, step: int) -> float:
    if step == ramp.steps:  # exactly, free of rounding
        return ramp.peak_lr
    if ramp.shape == "linear":
        return ramp.from_lr + (ramp.peak_lr - ramp.from_lr) * step / ramp.steps
    fraction = (step - 1) / (ramp.steps - 1)
    return float(ramp.from_lr * (ramp.peak_lr / ramp.from_lr) ** fraction)


def _grid(schedule: GridSchedule, step: int) -> float:
    if step <= schedule.warmup_steps:
        return schedule.lr * step / schedule.warmup_steps
    if schedule.shape == "constant":
        return schedule.lr
    progress = (step - schedule.warmup_steps) / max(1, schedule.steps - schedule.warmup_steps)
    return schedule.final_lr + (schedule.lr - schedule.final_lr) * 0.5 * (1.0 + math.cos(math.pi * progress))
