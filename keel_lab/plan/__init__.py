"""The plan: which distinct trials a sweep stands for, and what they cost."""

from keel_lab.plan.expansion import expand
from keel_lab.plan.planned import Cell, Plan, PlannedTrial

__all__ = ["Cell", "Plan", "PlannedTrial", "expand"]
