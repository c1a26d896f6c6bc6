"""Which code ran: package versions, and the commits of the checkouts that it came from. Asked once a process."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keel_lab

PACKAGES = ("torch", "lightning", "ray", "numpy", "pyarrow")
GIT_SECONDS = 5.0


@cache
def provenance() -> dict[str, Any]:
    """`versions`, and of what lies in a git checkout `commit` (keel_lab's) and `folder_commit` (the current folder's).

    A commit ends in `+changes` where tracked files differ from it.
    """
    here = Path(keel_lab.__file__)
    own = _commit(here.parent, here.name)
    folder = _commit(Path.cwd())
    versions = {"keel_lab": keel_lab.__version__, "python": platform.python_version(), **_installed()}
    commits = {"commit": own, "folder_commit": folder if folder != own else None}
    return {"versions": versions, **{name: found for name, found in commits.items() if found}}


def _installed() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # a trainer of the user's own needs no torch
    return found


def _commit(folder: Path, tracked: str | None = None) -> str | None:
    """The checkout's commit; None if the folder is in none, or git is not there, or `tracked` is no file of it."""
    if tracked is not None and _git(folder, "ls-files", "--error-unmatch", tracked) is None:
        return None  # installed into a virtual environment that happens to lie in a checkout of something else
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def _git(folder: Path, *words: str) -> str | None:
    command = ["git", "-C", str(folder), *words]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
