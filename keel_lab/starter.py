"""A sweep file to begin with: commented, and it runs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from keel_lab.errors import UsageError

_FIRST = "my_sweep"
_COMMENTS = 36  # column at which comments stand


def starter(name: str = _FIRST) -> str:
    """The text of the file, for a sweep of that name."""
    text = files("keel_lab").joinpath("starter.yaml").read_text(encoding="utf-8")
    return re.sub(r"^name: NAME +", f"name: {name}".ljust(_COMMENTS - 1) + " ", text, count=1, flags=re.MULTILINE)


def write_starter(file: Path) -> None:
    """Writes the file; its stem names the sweep.

    Raises:
        UsageError: if there is a file already, or it cannot be written.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", file.stem).lstrip(".-") or _FIRST
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(starter(_FIRST if name == "sweep" else name))
    except FileExistsError as error:
        raise UsageError(f"{file}: it is there already and is left alone; name another file") from error
    except FileNotFoundError as error:
        raise UsageError(f"{file}: there is no folder {file.parent}; make it, or name another file") from error
    except OSError as error:
        raise UsageError(f"{file}: it cannot be written ({error.strerror}); name another file") from error
