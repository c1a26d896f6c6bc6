"""What the planner knows of an architecture without torch: options, bounds, and the exact parameter count.

Every `trainers/architectures/NAME.py` opens with a `DECLARATION` of this type; `Catalogue` is how the planner reaches
them (and the corpora) without importing `trainers`: `keel_lab.composition` hands it one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue

OptionKind = Literal["rule", "number", "flag", "choice"]


@dataclass(frozen=True)
class Option:
    """One option of an architecture.

    Attributes:
        kind: `rule` is a number or an expression in L such as `L^0.25` or `sqrt(L)` (see `keel_lab.spec.rule`).
        default: as it would stand in a sweep file.
        low, high: bounds of the resolved number; `open_low` excludes `low` itself.
        choices: allowed words of a `choice`.
        names: other words for rules, e.g. {"keel_paper": "L^-0.25"}; they plan the same trials as the rule itself.
        later: it came when trials were already stored. At its default it is left out of a trial's options, so that
            their ids stay; a rule's default is then a number.
        help: one line for messages and docs.
    """

    kind: OptionKind
    default: OptionValue
    help: str
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    choices: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    later: bool = False


@dataclass(frozen=True)
class Declaration:
    """The torch-free face of an architecture.

    Attributes:
        name: as in sweep files.
        title: as in tables, e.g. `Post-LN`.
        source: paper and section or equation.
        parameters: exact number of trainable parameters beyond the core (embedding, branches, head), i.e. norms and
            vectors, from (model, blocks, resolved options).
        options: by name; empty if it has none.
        row: place in tables: 0 to 5 are the paper's Table 1, what stands beside it follows; None = after those, by
            name.
        ignores: model axes that make no difference to it (`qk_norm`, where its own norms cover q and k).
    """

    name: str
    title: str
    source: str
    parameters: Callable[[ModelSettings, int, Mapping[str, OptionValue]], int]
    options: Mapping[str, Option] = field(default_factory=dict)
    row: int | None = None
    ignores: tuple[str, ...] = ()

    def complete(self, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
        """A trial's options with those that it leaves out, see `Option.later`, at their defaults."""
        left_out = {
            name: float(option.default) if option.kind in ("rule", "number") else option.default
            for name, option in self.options.items()
            if option.later and name not in options
        }
        return {**options, **left_out}


@dataclass(frozen=True)
class CorpusFacts:
    """What is known of a corpus before training.

    Attributes:
        fingerprint: sha256 over the tokenised train and held-out splits and the split rule.
        tokens: training tokens.
        vocab: number of token ids.
        source: how the sweep file named it, e.g. `stdlib`.
        heldout: held-out tokens; 0 if not known (sweeps stored before it was).
    """

    fingerprint: str
    tokens: int
    vocab: int
    tokenizer: str
    source: str
    heldout: int = 0


class Catalogue(Protocol):
    """What the planner asks of the trainer side, torch-free."""

    def names(self) -> tuple[str, ...]:
        """Names of the architectures that ship, in the order of their rows."""

    def declaration(self, name: str) -> Declaration:
        """The declaration of an architecture. Raises KeyError if there is none of that name."""

    def parameters(
        self, architecture: str, model: ModelSettings, blocks: int, options: Mapping[str, OptionValue], vocab: int
    ) -> int:
        """Exact number of trainable parameters of the whole model."""

    def corpus(self, data: Mapping[str, Any], folder: Path) -> CorpusFacts:
        """Facts of the corpus that a sweep's `data` section names; `text: GLOB` is relative to `folder`.

        Raises:
            UsageError: if there is no such corpus, it is empty or unreadable, or too short for one sequence.
        """

    def prepare(self, data: Mapping[str, Any], folder: Path, facts: CorpusFacts, destination: Path) -> None:
        """Writes the tokenised shard and its manifest under `destination` (idempotent)."""
