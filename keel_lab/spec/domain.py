"""What a parameter of a search may be: a range in one of several forms, or a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from keel_lab.spec import quantity, rule
from keel_lab.spec.label import label_text

Form = Literal["uniform", "log_uniform", "power_of_L", "choice"]
DIGITS = 4  # significant ones of a value that was drawn from a range: names stay short, and equal points meet


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may take.

    Attributes:
        form: `power_of_L` means L^p with p between `low` and `high`, L the number of sub-layers.
        low, high: bounds as in the file: numbers, rules in L, or percentages; None for a choice.
        step: of a `uniform` range; None for any value (any whole number, of an integer).
        values: of a choice.
        integer: whether only whole numbers will do.
    """

    form: Form
    low: float | str | None = None
    high: float | str | None = None
    step: float | None = None
    values: tuple[Any, ...] = ()
    integer: bool = False

    def bounds(self, sublayers: int) -> tuple[float, float]:
        """The bounds as numbers, at a depth; a percentage in percent."""
        low, high = (_number(bound, sublayers) for bound in (self.low, self.high))
        return low, high

    @property
    def in_percent(self) -> bool:
        """Whether its values are percentages."""
        return isinstance(self.low, str) and self.low.endswith("%")

    @property
    def depends_on_depth(self) -> bool:
        """Whether its bounds are other numbers at another depth."""
        return any(isinstance(bound, str) and "L" in bound for bound in (self.low, self.high))

    def value(self, drawn: Any) -> Any:
        """What stands for a drawn number in the trial: rounded to `DIGITS`, as a rule or percentage where it is one."""
        if self.form == "choice" or self.integer:
            return drawn
        rounded = float(f"{drawn:.{DIGITS}g}")
        if self.form == "power_of_L":
            return f"L^{rounded:.{DIGITS}g}" if rounded else 1.0
        return quantity.percentage(f"{rounded:g}%") if self.in_percent else rounded

    def document(self) -> dict[str, Any]:
        """As in a sweep file."""
        if self.form == "choice":
            return {"choice": [list(one) if isinstance(one, tuple) else one for one in self.values]}
        return {self.form: [self.low, self.high], **({} if self.step is None else {"step": self.step})}

    def words(self) -> str:
        """For a plan: `1e-4 to 0.1, log`."""
        if self.form == "choice":
            return f"one of {', '.join(map(_text, self.values))}"
        kind = {"uniform": "", "log_uniform": ", log", "power_of_L": ", power of L"}[self.form]
        return f"{_text(self.low)} to {_text(self.high)}{kind}{'' if self.step is None else f', step {self.step:g}'}"


def _text(value: Any) -> str:
    return label_text(value) if isinstance(value, str | int | float | bool) else str(value)


def _number(bound: float | str | None, sublayers: int) -> float:
    assert bound is not None
    if isinstance(bound, str) and bound.endswith("%"):
        return float(quantity.fraction(bound) * 100)
    return rule.resolve(bound, sublayers) if isinstance(bound, str) else bound
