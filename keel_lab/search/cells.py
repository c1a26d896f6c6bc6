"""What a search consists of: one search for each cell of the grid, or one for all; and the trials of a point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keel_lab.errors import UsageError
from keel_lab.plan.expansion import SEEDS, Expansion, combinations
from keel_lab.plan.planned import Cell, PlannedTrial
from keel_lab.spec import rule
from keel_lab.spec.domain import Domain
from keel_lab.spec.label import label_text
from keel_lab.spec.search import ALL, Parameter, SearchSpec
from keel_lab.spec.sweep import Axis

if TYPE_CHECKING:
    from keel_lab.architecture import Catalogue, CorpusFacts
    from keel_lab.spec import SweepSpec

CLOSE = 0.1  # how far the number of parameters may be from the one that a search holds fixed


@dataclass(frozen=True)
class SearchCell:
    """One search of a sweep.

    Attributes:
        number: its place in the sweep.
        name: `keel 8 blocks`, with what else tells it from the sweep's others.
        fixed: values by key that all its points share.
        joint: axes of the grid that it searches, before the space.
    """

    number: int
    name: str
    fixed: Mapping[str, Any]
    joint: tuple[Parameter, ...] = ()


class Points:
    """Cells, and the trials of their points.

    Args:
        spec: a sweep of protocol search.
        catalogue: its architectures.
        facts: its corpus.
    """

    def __init__(self, spec: SweepSpec, catalogue: Catalogue, facts: CorpusFacts) -> None:
        assert spec.search is not None
        self.search: SearchSpec = spec.search
        self._spec, self._catalogue = spec, catalogue
        self._expansion = Expansion(spec, catalogue, facts)
        seeds = [axis for axis in spec.axes if axis.key in SEEDS]
        self.seeds: tuple[int, ...] = tuple(seeds[0].values) if seeds else (0,)
        last = max(self.seeds)
        self.fresh_seeds = tuple(range(last + 1, last + 1 + self.search.remeasure.seeds))
        self.cells = tuple(self._cells([axis for axis in spec.axes if axis.key not in SEEDS]))

    def _cells(self, axes: Sequence[Axis]) -> Iterator[SearchCell]:
        several = [axis for axis in axes if len(axis.values) > 1]
        if self.search.per == ALL:
            joint = joint_parameters(self._spec)
            fixed = {axis.key: axis.values[0] for axis in axes if axis not in several}
            names = "|".join(str(name) for axis in axes if axis.key == "architecture" for name in axis.values)
            depths = "|".join(str(blocks) for axis in axes if axis.key == "blocks" for blocks in axis.values)
            yield SearchCell(0, f"{names} {depths} blocks", fixed, joint)
            return
        for number, values in enumerate(combinations(list(axes))):
            told = tuple((axis.key.split(".")[1], _label(values[axis.key])) for axis in several if "." in axis.key)
            yield SearchCell(number, str(Cell(values["architecture"], values["blocks"], told)), values)

    def parameters(self, cell: SearchCell, chosen: Mapping[str, Any]) -> Iterator[Parameter]:
        """The parameters of a point, each once those before it are chosen (by name): some hold for some architectures.

        An architecture's own range of a key stands for the general one.
        """
        yield from cell.joint
        values = {**cell.fixed, **{one.key: chosen[one.name] for one in cell.joint if one.name in chosen}}
        architecture = values["architecture"]
        options = self._catalogue.declaration(architecture).options
        own = {one.key for one in self.search.space if one.architecture == architecture}
        for one in self.search.space:
            option = one.key.removeprefix("options.")
            if option != one.key and option not in options:
                continue
            if one.architecture == architecture or (one.architecture is None and one.key not in own):
                yield one

    def all_parameters(self, cell: SearchCell) -> list[Parameter]:
        """Those that any point of a search may have, each once."""
        found: dict[str, Parameter] = {}
        for choice in itertools.product(*(one.domain.values for one in cell.joint)):
            chosen = {one.name: value for one, value in zip(cell.joint, choice, strict=True)}
            found |= {one.name: one for one in self.parameters(cell, chosen)}
        return list(found.values())

    def most(self, cell: SearchCell) -> int:
        """How many points a search asks: `search.points`, but no more than the combinations of sampler `grid`."""
        if self.search.sampler.name != "grid":
            return self.search.points
        choices = (len(one.domain.values) for one in self.all_parameters(cell) if one.domain.form == "choice")
        return min(self.search.points, math.prod(choices))

    def sublayers(self, cell: SearchCell, chosen: Mapping[str, Any]) -> int:
        """L of a point; 2 as long as a depth that is searched is not drawn, which only choices precede."""
        joint = {one.key: chosen.get(one.name) for one in cell.joint}
        return 2 * int(joint.get("blocks") or cell.fixed.get("blocks", 1))

    def values(self, cell: SearchCell, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """What the point's trials have, by key: the drawn numbers rounded, as rules or percentages where they are."""
        found = dict(cell.fixed)
        for one in self.parameters(cell, drawn):
            found[one.key] = one.domain.value(drawn[one.name])
        return found

    def trials(self, values: Mapping[str, Any], seeds: Sequence[int], **labels: Any) -> list[PlannedTrial]:
        """The trials of a point: for each seed one of each section that the objectives need.

        Raises:
            UsageError: if no width gives about the number of parameters that the search holds fixed.
        """
        whole = values if self.search.parameters is None else self._with_width(values)
        own = {name: one[0] for name, one in self._spec.options.get(values["architecture"], {}).items()}
        found = []
        for seed, section in itertools.product(seeds, self.search.sections):
            planned = self._expansion.trial(whole, own, {"seed": seed}, section)
            found.append(PlannedTrial(planned.trial, planned.cell, {**planned.labels, **labels}, planned.parameters))
        return found

    def samples(self) -> list[PlannedTrial]:
        """Trials at the corners of the space, for a trainer to check before anything is asked."""
        found = {}
        for cell in self.cells:
            joint = [one.domain.values for one in cell.joint]
            for choice in itertools.product(*joint):
                chosen = {one.name: value for one, value in zip(cell.joint, choice, strict=True)}
                sublayers = self.sublayers(cell, chosen)
                space = [one for one in self.parameters(cell, chosen) if one not in cell.joint]
                ends = [_ends(one, sublayers) for one in space]
                for turn in range(max((len(one) for one in ends), default=1)):
                    drawn = {one.name: values[turn % len(values)] for one, values in zip(space, ends, strict=True)}
                    for planned in self.trials(self.values(cell, {**chosen, **drawn}), self.seeds[:1]):
                        found[planned.trial.id] = planned
        return list(found.values())

    def _with_width(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The width, a multiple of 2 x heads, that comes nearest to `search.parameters`; FFN in proportion."""
        wanted = self.search.parameters
        assert wanted is not None
        constants = {**self._spec.constants["model"], **{k.split(".")[1]: v for k, v in values.items() if "." in k}}
        ratio, unit = constants["ffn_width"] / constants["width"], 2 * constants["heads"]

        def at(units: int) -> tuple[int, dict[str, Any]]:
            width = units * unit
            shaped = {**values, "model.width": width, "model.ffn_width": max(1, round(width * ratio))}
            own = {name: one[0] for name, one in self._spec.options.get(values["architecture"], {}).items()}
            planned = self._expansion.trial(shaped, own, {"seed": 0}, self.search.sections[0])
            return planned.parameters, shaped

        if not at(1)[0]:
            raise UsageError(
                f"search.parameters: found {wanted:,}; the trainer does not say how many parameters its models have "
                "(ARCHITECTURES): remove it"
            )
        high = 1
        while at(high)[0] < wanted:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle)[0] < wanted else (low, middle)
        found = min((at(units) for units in (low, high) if units), key=lambda one: abs(math.log(one[0] / wanted)))
        if abs(found[0] / wanted - 1) > CLOSE:
            raise UsageError(
                f"search.parameters: found {wanted:,}; at {values['blocks']} blocks the nearest width, "
                f"{found[1]['model.width']}, gives {found[0]:,}: more than a tenth off; change it, or model.heads"
            )
        return found[1]


def joint_parameters(spec: SweepSpec) -> tuple[Parameter, ...]:
    """The axes of the grid that a sweep searches jointly, as parameters."""
    assert spec.search is not None
    several = [axis for axis in spec.axes if axis.key not in SEEDS and len(axis.values) > 1]
    return tuple(
        Parameter(axis.key, axis.key.split(".")[-1], Domain("choice", values=axis.values))
        for axis in several
        if spec.search.per == ALL
    )


def from_file(domain: Domain, value: Any, sublayers: int) -> Any:
    """The drawn number that a value in the words of a sweep file stands for (`alpha: L` is 1 as a power of L).

    Raises:
        ValueError: if it is not in the domain.
    """
    if domain.form == "choice":
        found = tuple(value) if isinstance(value, list) else value
        if found not in domain.values:
            raise ValueError(f"must be {domain.words()}")
        return found
    if isinstance(value, str) and value.endswith("%"):
        number = float(value[:-1])
    else:
        number = rule.resolve(value, sublayers) if isinstance(value, str) else float(value)
    if domain.form == "power_of_L":
        number = math.log(number) / math.log(sublayers) if number > 0 else math.nan
    low, high = domain.bounds(sublayers)
    slack = 1e-9 * max(abs(low), abs(high))
    if not low - slack <= number <= high + slack:
        raise ValueError(f"must be {domain.words()}")
    number = min(max(number, low), high)
    return round(number) if domain.integer else number


def _ends(parameter: Parameter, sublayers: int) -> tuple[Any, ...]:
    domain = parameter.domain
    if domain.form == "choice":
        return domain.values
    low, high = domain.bounds(sublayers)
    return (int(low), int(high)) if domain.integer else (low, high)


def _label(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else ",".join(map(label_text, value))
