"""The residual and normalisation schemes, one small file each, found by listing this package; no torch at import.

A file holds `DECLARATION` (torch-free) and `build(blocks, options) -> Architecture`. A user's own is named
`my_package:MyArchitecture`: any object, class or namespace, with the same two attributes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

from keel_lab.architecture import Declaration
from keel_lab.errors import UsageError
from keel_lab.trial import OptionValue

if TYPE_CHECKING:
    from trainers.residual import Architecture


class Scheme(Protocol):
    """What an architecture's file, or a user's object, offers."""

    @property
    def DECLARATION(self) -> Declaration:
        """Options, bounds and parameter count."""

    def build(self, blocks: int, options: Mapping[str, OptionValue]) -> Architecture:
        """The scheme at one depth; every option is there, and every rule is a number."""


@cache
def names() -> tuple[str, ...]:
    """The schemes that ship: those of the paper's Table 1 in its order, then the others by name."""
    found = [_shipped(module.name).DECLARATION for module in pkgutil.iter_modules(__path__)]
    return tuple(d.name for d in sorted(found, key=lambda d: (d.row is None, d.row or 0, d.name)))


def find(name: str) -> Scheme:
    """The scheme of that name.

    Raises:
        KeyError: if none ships under that name, or the module or attribute of `package:Name` does not exist.
        UsageError: if what `package:Name` names is no architecture, or its module cannot be imported.
    """
    if ":" in name:
        return _own(name)
    if name not in names():
        raise KeyError(f"no architecture {name!r}; there are {', '.join(names())}, or a package:Name of your own")
    return _shipped(name)


def _shipped(name: str) -> Scheme:
    return cast(Scheme, importlib.import_module(f"{__name__}.{name}"))


def _own(name: str) -> Scheme:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UsageError(f"architecture {name!r}: module {module_name} cannot be imported: {error}") from error
        where = "in the current folder or on the Python path"
        raise KeyError(f"architecture {name!r}: there is no module {module_name!r} {where}") from error
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"architecture {name!r}: module {module_name} cannot be imported: {said}") from error
    scheme = getattr(module, attribute, None)
    if scheme is None:
        raise KeyError(f"architecture {name!r}: module {module_name!r} has no {attribute!r}")
    if not isinstance(getattr(scheme, "DECLARATION", None), Declaration) or not callable(
        getattr(scheme, "build", None)
    ):
        raise UsageError(
            f"architecture {name!r}: it must have a DECLARATION, a keel_lab.architecture.Declaration, and "
            "build(blocks, options)"
        )
    return cast(Scheme, scheme)
