"""keel_lab: what runs and what its outcome means. No torch, pandas or Lightning is imported anywhere below."""

from __future__ import annotations

__version__ = "0.1.0"
