"""How code reaches the workers of a Ray that is joined, which need not share a disk with the driver.

By itself the driver ships its own packages, so that workers run the very code that planned the sweep; what these need
(torch, lightning, pyarrow) is installed there. `--runtime-env FILE` says it in Ray's words instead, e.g. a wheel:

    py_modules: [dist/keel_lab-0.1.0-py3-none-any.whl]
    env_vars: {AWS_PROFILE: lab}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keel_lab.errors import UsageError
from keel_lab.trial import Trial

OWN = ("keel_lab", "trainers")


def runtime_env(file: str | None, trials: Iterable[Trial]) -> Mapping[str, Any]:
    """Ray's runtime environment for the workers: the file's, or one with the driver's own code.

    Args:
        file: a YAML file; None for the driver's own code.
        trials: their trainers and architectures are among it.

    Raises:
        UsageError: if the file cannot be read, or is no mapping.
    """
    return _read(Path(file)) if file is not None else {"py_modules": [str(place) for place in own_code(trials)]}


def own_code(trials: Iterable[Trial]) -> list[Path]:
    """The folder or file of each package that the trials need of the driver's."""
    names = dict.fromkeys(OWN)
    for trial in trials:
        names[trial.trainer.partition(".")[0]] = None
        module, colon, _ = trial.architecture.partition(":")
        if colon:
            names[module.partition(".")[0]] = None
    return [place for place in map(_place, names) if place is not None]


def _place(name: str) -> Path | None:
    """Where a top-level module lies; found without importing it. None for one that is not of files."""
    found = find_spec(name)
    if found is None:
        return None
    folders = list(found.submodule_search_locations or ())
    if folders:
        return Path(folders[0])
    return Path(found.origin) if found.has_location and found.origin else None


def _read(file: Path) -> Mapping[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    remedy = "give a YAML file with the keys of a Ray runtime environment: py_modules, pip, env_vars, ..."
    try:
        content = YAML(typ="safe").load(file)
    except OSError as error:
        raise UsageError(f"--runtime-env {file}: cannot be read: {error.strerror}; {remedy}") from error
    except YAMLError as error:
        raise UsageError(f"--runtime-env {file}: is no YAML: {' '.join(str(error).split())}; {remedy}") from error
    if not isinstance(content, dict):
        raise UsageError(f"--runtime-env {file}: found {content!r}; {remedy}")
    here = file.absolute().parent  # paths in it are relative to it, as in a sweep file
    modules = [_beside(here, module) for module in content.get("py_modules") or ()]
    return content | ({"py_modules": modules} if modules else {})


def _beside(folder: Path, module: Any) -> Any:
    if not isinstance(module, str) or "://" in module:
        return module
    place = folder / module
    if not place.exists():
        raise UsageError(f"--runtime-env: py_modules names {place}, which does not exist; correct or build it")
    return str(place)
