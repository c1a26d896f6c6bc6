"""Divergence: the vocabulary of verdicts, the detectors, and Max LR. Pure Python, no torch, no files."""
