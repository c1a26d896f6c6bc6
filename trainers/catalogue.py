"""What the planner asks of the trainer side (`keel_lab.architecture.Catalogue`), without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keel_lab.architecture import Catalogue, CorpusFacts, Declaration
from keel_lab.settings import ModelSettings
from keel_lab.trial import OptionValue
from trainers import architectures


class TrainerCatalogue:
    """The architectures and corpora of this package; architectures of the user's own by `package:Name`."""

    def names(self) -> tuple[str, ...]:
        """Names of the architectures that ship, in the order of their rows."""
        return architectures.names()

    def declaration(self, name: str) -> Declaration:
        """The declaration of an architecture.

        Raises:
            KeyError: if there is none of that name.
            UsageError: if a `package:Name` names something that is no architecture.
        """
        return architectures.find(name).DECLARATION

    def parameters(
        self, architecture: str, model: ModelSettings, blocks: int, options: Mapping[str, OptionValue], vocab: int
    ) -> int:
        """Exact number of trainable parameters of the whole model, by arithmetic.

        Raises:
            KeyError: if there is no such architecture.
        """
        declaration = self.declaration(architecture)
        own = declaration.parameters(model, blocks, declaration.complete(options))
        if model.qk_norm and "qk_norm" not in declaration.ignores:
            own += 2 * blocks * (model.width // model.heads)
        embeddings = vocab * model.width * (1 if model.tied_head else 2)
        return embeddings + blocks * block_parameters(model) + own

    def corpus(self, data: Mapping[str, Any], folder: Path) -> CorpusFacts:
        """Facts of the corpus that a sweep's `data` section names; `text: GLOB` is relative to `folder`.

        Raises:
            UsageError: if there is no such corpus, it is empty or unreadable, or too short for one sequence.
        """
        from trainers.data.corpus import facts

        return facts(data, folder)

    def prepare(self, data: Mapping[str, Any], folder: Path, facts: CorpusFacts, destination: Path) -> None:
        """Writes the tokenised shard and its manifest under `destination` (idempotent)."""
        from trainers.data.corpus import prepare

        prepare(data, folder, facts, destination)


def block_parameters(model: ModelSettings) -> int:
    """Matrices of one block, without norms: q, k, v, o; gate, up, down (gelu has no gate), once an expert; a router."""
    grouped = model.kv_heads * (model.width // model.heads)
    attention = 2 * model.width * model.width + 2 * model.width * grouped
    swiglu = 3 * model.width * model.ffn_width
    feedforward = {
        "swiglu": swiglu,
        "gelu": 2 * model.width * model.ffn_width,
        "moe": model.experts * (swiglu + model.width),
    }
    return attention + feedforward[model.ffn]


CATALOGUE: Catalogue = TrainerCatalogue()
