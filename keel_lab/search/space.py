"""A parameter's values as Optuna's distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keel_lab.spec.domain import Domain
from keel_lab.spec.label import label_text
from keel_lab.spec.search import Parameter

if TYPE_CHECKING:
    import optuna


def distribution(domain: Domain, sublayers: int) -> optuna.distributions.BaseDistribution:
    """The distribution at a depth of `sublayers`; pairs, which Optuna has not, stand as text."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if domain.form == "choice":
        return CategoricalDistribution([stored(value) for value in domain.values])
    low, high = domain.bounds(sublayers)
    log = domain.form == "log_uniform"
    if domain.integer:
        return IntDistribution(int(low), int(high), log=log, step=int(domain.step or 1))
    return FloatDistribution(low, high, log=log, step=domain.step)


def suggest(trial: optuna.Trial, parameter: Parameter, sublayers: int) -> Any:
    """Lets the sampler draw a parameter."""
    domain = parameter.domain
    if domain.form == "choice":
        drawn = trial.suggest_categorical(parameter.name, [stored(value) for value in domain.values])
        return next(value for value in domain.values if _same(stored(value), drawn))
    low, high = domain.bounds(sublayers)
    log = domain.form == "log_uniform"
    if domain.integer:
        return trial.suggest_int(parameter.name, int(low), int(high), log=log, step=int(domain.step or 1))
    return trial.suggest_float(parameter.name, low, high, log=log, step=domain.step)


def stored(value: Any) -> Any:
    """A drawn value as Optuna keeps it."""
    return ",".join(map(label_text, value)) if isinstance(value, tuple | list) else value


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right
