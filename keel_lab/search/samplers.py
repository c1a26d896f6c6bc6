"""Optuna's samplers and pruners by name, and what their options may be: their own signatures say it."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keel_lab.spec.kind import nearest
from keel_lab.spec.search import Chosen, SearchSpec

if TYPE_CHECKING:
    import optuna

SAMPLERS = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cma-es": "CmaEsSampler",
    "nsga2": "NSGAIISampler",
    "random": "RandomSampler",
    "grid": "GridSampler",
}
PRUNERS = {
    "median": "MedianPruner",
    "percentile": "PercentilePruner",
    "successive_halving": "SuccessiveHalvingPruner",
    "hyperband": "HyperbandPruner",
    "threshold": "ThresholdPruner",
}
AUTO, NONE = "auto", "none"
SPARE = "spare_slow_starters"  # our own option of every pruner, see `pruning`
_OURS = ("seed", "search_space")  # set by us
_LEAVING = (  # will go in Optuna 6
    "consider_prior",
    "prior_weight",
    "consider_magic_clip",
    "consider_endpoints",
    "warn_independent_sampling",
    "restart_strategy",
    "inc_popsize",
    "x0",
)
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {  # of an annotation: what is allowed, and how it is said
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (lambda value: _number(value, int) and value >= 0, "an integer of at least 0"),
    "float": (lambda value: _number(value, int | float), "a number"),
    "str": (lambda value: isinstance(value, str), "text"),
    "None": (lambda value: value is None, "null"),
}
_QUICK = ("tpe", "cma-es", "nsga2")  # samplers that can be tried within milliseconds and without torch
_REHEARSED = 6  # points


def names(word: str) -> tuple[str, ...]:
    """The names of samplers, or of pruners."""
    return (AUTO, *SAMPLERS) if word == "sampler" else (NONE, *PRUNERS)


def problems(word: str, name: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """What is wrong with a sampler or pruner: the option (or nothing), what is allowed, and what is near."""
    known = names(word)
    if name not in known:
        yield "", f"must be one of {', '.join(known)}", nearest(name, known)
        return
    allowed = _options(word, name)
    for key, value in options.items():
        if key not in allowed:
            said = f"{name} has the options {', '.join(allowed)}" if allowed else f"{name} has no options"
            yield key, said, nearest(key, tuple(allowed))
        elif said := _misfit(value, allowed[key]):
            yield key, said, None
    fit = all(key in allowed and not _misfit(value, allowed[key]) for key, value in options.items())
    if fit and name not in (NONE, "grid"):
        said = _refused(
            word, "tpe" if name == AUTO else name, {key: value for key, value in options.items() if key != SPARE}
        )
        if said:
            yield "", said, None


def misfits(spec: SearchSpec) -> Iterator[tuple[str, str]]:
    """What of a search does not go together: the key, and what is allowed."""
    several = len(spec.objectives) > 1
    if several and spec.sampler.name == "cma-es":
        yield "sampler", "cma-es has one objective: use tpe, nsga2 or gp for several"
    if several and spec.pruner.name != NONE:
        yield "pruner", "Optuna prunes for one objective only: with several, remove it"
    if spec.pruner.name != NONE and spec.sections == ("ramp",):
        yield "pruner", "a ramp ends where it diverges, and that is its value: it is not pruned; remove the pruner"
    if spec.sampler.name == "grid":
        ranges = [one.name for one in spec.space if one.domain.form != "choice"]
        if ranges:
            yield (
                "sampler",
                f"grid needs values to try for {', '.join(ranges)}: {{choice: [...]}} or {{log: [lo, hi, n]}}",
            )
        if any(one.architecture is not None for one in spec.space):
            yield "sampler", "grid has one space for all architectures: remove space.per_architecture"
    if spec.sampler.name == "cma-es" and any(one.domain.form == "choice" for one in spec.space):
        yield "sampler", "cma-es has no choices: use tpe or gp, or ranges"


def sampler(
    spec: SearchSpec, seed: int, space: Mapping[str, Sequence[Any]], conditional: bool
) -> optuna.samplers.BaseSampler:
    """A new sampler; made anew for each point, with a seed that only the point's number decides.

    Args:
        spec: the search.
        seed: of this point.
        space: for `grid`, the values of each parameter.
        conditional: whether points have different parameters.
    """
    import optuna

    name, options = spec.sampler.name, dict(spec.sampler.options)
    if name in (AUTO, "tpe"):
        start = {"n_startup_trials": min(10, math.ceil(spec.points / 4))} if name == AUTO else {}
        name, options = "tpe", {**start, "group": conditional, **options}
    if name in ("gp", "cma-es"):
        options = {"warn_independent_sampling": False, **options}
    if name == "grid":
        options, seed = {"search_space": dict(space)}, spec.seed  # it numbers the combinations by its seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made: optuna.samplers.BaseSampler = getattr(optuna.samplers, SAMPLERS[name])(seed=seed, **options)
    return made


def pruner(chosen: Chosen) -> optuna.pruners.BasePruner:
    """The pruner."""
    import optuna

    if chosen.name == NONE:
        return optuna.pruners.NopPruner()
    options = {key: value for key, value in chosen.options.items() if key != SPARE}
    made: optuna.pruners.BasePruner = getattr(optuna.pruners, PRUNERS[chosen.name])(**options)
    return made


def _class(word: str, name: str) -> Any:
    import optuna

    where = optuna.samplers if word == "sampler" else optuna.pruners
    return getattr(where, (SAMPLERS if word == "sampler" else PRUNERS)[name])


def _options(word: str, name: str) -> dict[str, str]:
    """Those of Optuna's class that can stand in a file, and ours, with their annotations."""
    if name == NONE:
        return {}
    parameters = inspect.signature(_class(word, "tpe" if name == AUTO else name).__init__).parameters
    annotated = {key: getattr(one.annotation, "__name__", str(one.annotation)) for key, one in parameters.items()}
    found = {
        key: said
        for key, said in annotated.items()
        if key not in ("self", *_OURS, *_LEAVING)
        and not any(text in said for text in ("Callable", "Base", "Frozen", "dict"))
    }
    return {**found, SPARE: "bool"} if word == "pruner" else found


def _misfit(value: Any, annotation: str) -> str:
    """What an option must be, if a value is not; nothing if it is."""
    kinds = [_KINDS[one.strip()] for one in annotation.split("|")]
    if any(fits(value) for fits, _ in kinds):
        return ""
    return f"must be {' or '.join(said for _, said in kinds)}"


def _number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _refused(word: str, name: str, options: Mapping[str, Any]) -> str:
    """What Optuna says against options, when it is made with them or asks its first points; or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _class(word, name)(**options)
            if name in _QUICK:
                at_once = {} if name == "nsga2" else {"n_startup_trials": 1}  # what is drawn before is random
                _rehearse(_class(word, name)(**{**options, **at_once}))
    except (TypeError, ValueError, AssertionError) as error:
        return f"Optuna's {name} refuses its options: {' '.join(str(error).split())}"
    except ImportError as error:
        return f"Optuna's {name} needs a package that is not installed: {error}"
    return ""


def _rehearse(made: optuna.samplers.BaseSampler) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=made)
    for _ in range(_REHEARSED):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0) + trial.suggest_float("y", 0.0, 1.0))
