"""A trainer that a sweep file names: the module, what it says of its architectures, and sweeps without a corpus.

`trainer: package.module` names any module with `preflight(trial)` and `run(trial, workdir, report)` (see
`schedule.reporting`). It may also have `ARCHITECTURES`, a list of `Declaration`s, if its architectures have options or
a number of parameters, and `NUMERICS`, an integer to be raised when the same trial would give other numbers.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from keel_lab.architecture import Catalogue, CorpusFacts, Declaration
from keel_lab.errors import UsageError
from keel_lab.settings import ModelSettings
from keel_lab.trial import NUMERICS, OptionValue, Trial

DEFAULT: str = Trial.model_fields["trainer"].default
NO_CORPUS = CorpusFacts(fingerprint="", tokens=0, vocab=0, tokenizer="none", source="none")
PARTS = ("preflight", "run")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORD = re.compile(r"[A-Za-z_][\w.-]*")


def load(name: str) -> ModuleType:
    """The trainer's module, imported.

    Raises:
        UsageError: one clause: it cannot be imported, or lacks a function.
    """
    if not _MODULE.fullmatch(name):
        raise UsageError("must be a module, such as my_package.my_trainer")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {error.name} in the current folder or on the Python path: run keel-lab where it "
                "lies, or add its folder to PYTHONPATH"
            ) from error
        raise UsageError(f"it cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever a user's module does when it is imported
        raise UsageError(f"it cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}") from error
    lacking = [f"{part}()" for part in PARTS if not callable(getattr(module, part, None))]
    if lacking:
        raise UsageError(
            f"the module has no {' and no '.join(lacking)}; a trainer has preflight(trial) and "
            "run(trial, workdir, report)"
        )
    wrong = [one for one in getattr(module, "ARCHITECTURES", ()) if not isinstance(one, Declaration)]
    if wrong:
        raise UsageError(f"its ARCHITECTURES hold {wrong[0]!r}; each must be a keel_lab.architecture.Declaration")
    return module


def numerics(name: str) -> int:
    """The `numerics` of the trainer's trials."""
    return NUMERICS if name == DEFAULT else int(getattr(load(name), "NUMERICS", 1))


def catalogue_for(name: str, shipped: Catalogue) -> Catalogue:
    """What the planner may ask under this trainer; for our own, `shipped` itself.

    Raises:
        UsageError: as `load`.
    """
    return shipped if name == DEFAULT else OwnCatalogue(shipped, load(name))


class OwnCatalogue:
    """The catalogue of a sweep with a trainer of its own.

    Its architectures are those of `ARCHITECTURES`. Without that list any word is one, which the trainer's `preflight`
    may refuse; the words of architectures that ship keep their options. A sweep without `data` has no corpus.

    Args:
        shipped: of architectures and corpora that ship.
        module: the trainer; None for one that could not be loaded, where any word will do.
    """

    def __init__(self, shipped: Catalogue, module: ModuleType | None) -> None:
        self._shipped = shipped
        self._own: Mapping[str, Declaration] = {one.name: one for one in getattr(module, "ARCHITECTURES", ())}

    def names(self) -> tuple[str, ...]:
        """See `Catalogue.names`."""
        return tuple(self._own) or self._shipped.names()

    def declaration(self, name: str) -> Declaration:
        """See `Catalogue.declaration`."""
        if name in self._own:
            return self._own[name]
        if ":" in name or (not self._own and name in self._shipped.names()):
            return self._shipped.declaration(name)
        if self._own or not _WORD.fullmatch(name):
            raise KeyError(f"no architecture {name!r}")
        return Declaration(name, name, "named by the sweep file", lambda model, blocks, options: 0)

    def parameters(
        self, architecture: str, model: ModelSettings, blocks: int, options: Mapping[str, OptionValue], vocab: int
    ) -> int:
        """See `Catalogue.parameters`; what `ARCHITECTURES` say is the whole, and 0 if nothing is known."""
        if ":" in architecture or (not self._own and architecture in self._shipped.names()):
            return self._shipped.parameters(architecture, model, blocks, options, vocab)
        return self.declaration(architecture).parameters(model, blocks, options)

    def corpus(self, data: Mapping[str, Any], folder: Path) -> CorpusFacts:
        """See `Catalogue.corpus`."""
        return self._shipped.corpus(data, folder) if data else NO_CORPUS

    def prepare(self, data: Mapping[str, Any], folder: Path, facts: CorpusFacts, destination: Path) -> None:
        """See `Catalogue.prepare`."""
        self._shipped.prepare(data, folder, facts, destination)
