"""The sweep file: from YAML to a checked, typed `SweepSpec` (DESIGN section 4)."""

from keel_lab.spec.loading import load, parse
from keel_lab.spec.sweep import Axis, SweepSpec

__all__ = ["Axis", "SweepSpec", "load", "parse"]
