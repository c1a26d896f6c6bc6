"""Which code ran: package versions, and the commits of the checkouts that it came from. Asked once a process."""

from __future__ import annotations

import platform
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keel_lab

PACKAGES = ("torch", "lightning", "ray", "numpy", "pyarrow")
GIT_SECONDS = 5.0  # for all that is asked of it


@cache
def provenance() -> dict[str, Any]:
    """`versions`, and of what lies in a git checkout `commit` (keel_lab's) and `folder_commit` (the current folder's).

    A commit ends in `+changes` where tracked files differ from it. A git that does not answer delays nobody: then there
    is `commit_unknown` with the reason.
    """
    versions = {"keel_lab": keel_lab.__version__, "python": platform.python_version(), **_installed()}
    return {"versions": versions, **_within(GIT_SECONDS, _commits)}


def _commits() -> dict[str, str]:
    here = Path(keel_lab.__file__)
    own = _commit(here.parent, here.name)
    folder = _commit(Path())
    commits = {"commit": own, "folder_commit": folder if folder != own else None}
    return {name: found for name, found in commits.items() if found}


def _within(seconds: float, ask: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What `ask` says, unless it takes longer: on a network file system that is away nothing can end git, or wait."""
    found: list[dict[str, str]] = []
    asking = threading.Thread(target=lambda: found.append(ask()), name="keel-lab-git", daemon=True)
    asking.start()
    asking.join(seconds)
    return found[0] if found else {"commit_unknown": f"git did not answer within {seconds:g} s"}


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
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
