"""Stored results -> claims: load, statistics, tables, figures, report. Imports keel_lab, never trainers."""

from analysis.load import COLUMNS, load

__all__ = ["COLUMNS", "load"]
