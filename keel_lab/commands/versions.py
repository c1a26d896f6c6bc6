"""What `keel-lab --version` prints: our version and those of the stack, none of which is imported for it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

STACK = ("torch", "lightning", "ray", "mlflow", "numpy", "pandas", "pyarrow", "pydantic")


def versions(own: str) -> str:
    """`keel-lab 0.1.0`, then Python and the stack, one a line."""
    rows = [("keel-lab", own), ("python", platform.python_version()), *((name, _installed(name)) for name in STACK)]
    return "\n".join(f"{name} {found}" for name, found in rows)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
