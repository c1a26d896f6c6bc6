"""keel_lab: what runs and what its outcome means. Imports nothing heavy: no torch, pandas or Lightning anywhere below."""

from __future__ import annotations

__version__ = "0.1.0"
