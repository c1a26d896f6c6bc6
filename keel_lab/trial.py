"""A trial: one training run, fully resolved. It is what crosses the wire to a worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from keel_lab.settings import AnySchedule, ForkSchedule, ModelSettings, Resources, Schedule, Settings, TrainSettings

SCHEMA = 1
NUMERICS = 1  # raise when the same trial would give other numbers than before
# Fields that came when trials were already stored: at their defaults they are no part of an id. Only ever grows.
_LATER = {
    "model": ("qk_norm", "tied_head", "experts", "top_k", "balance_weight"),
    "train": ("momentum", "nesterov", "ns_steps", "clip", "z_loss"),
}

OptionValue = float | bool | str


class DataRef(Settings):
    """Which tokens a trial trains on: the tokenised shard's content, never its path.

    Attributes:
        fingerprint: sha256 of the tokenised corpus with its split; names `data/FINGERPRINT/` in the store.
        tokenizer: as in the sweep file.
        vocab: number of token ids.
    """

    fingerprint: str
    tokenizer: str
    vocab: Annotated[int, Field(ge=2)]


class Trial(Settings):
    """One training run. `id` hashes everything that should change its numbers, and nothing else.

    Attributes:
        options: the architecture's options with every default filled in and every rule (alpha: L) made a number.
        blocks: depth in blocks; a block is attention + FFN, so L = 2 * blocks sub-layers.
        numerics: see NUMERICS.
        resources: what the run occupies; not part of the id.
        trainer: importable module with `preflight(trial)` and `run(trial, workdir, report)`.
    """

    trainer: str = "trainers.job"
    architecture: str
    options: dict[str, OptionValue]
    blocks: Annotated[int, Field(ge=1)]
    model: ModelSettings
    data: DataRef | None
    train: TrainSettings
    schedule: Schedule
    init_seed: Annotated[int, Field(ge=0)] = 0
    data_seed: Annotated[int, Field(ge=0)] = 0
    numerics: int = NUMERICS
    resources: Resources = Resources()

    @property
    def sublayers(self) -> int:
        """L, the number of sub-layers."""
        return 2 * self.blocks

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one update sees."""
        return self.train.batch_size * self.model.context

    @property
    def trunk(self) -> Trial | None:
        """The trial that this one forks from; None if it is no fork."""
        if not isinstance(self.schedule, ForkSchedule):
            return None
        return self.with_schedule(self.schedule.trunk)

    def with_schedule(self, schedule: AnySchedule) -> Trial:
        """The same run under another schedule: another trial."""
        return self.model_copy(update={"schedule": schedule})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Trial:
        """Pydantic's, without handing on the cached id, which a changed copy must not keep."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("id", None)
        return copy

    def question(self) -> dict[str, Any]:
        """The canonical content of the id: typed values, no resources, no names or paths."""
        content = self.model_dump(mode="json", exclude={"resources"})
        for section, names in _LATER.items():
            fields = type(getattr(self, section)).model_fields
            for name in names:
                if content[section][name] == fields[name].default:
                    del content[section][name]
        return content

    @cached_property
    def id(self) -> str:
        """16 hex digits of sha256 over the canonical JSON of `question()`."""
        text = json.dumps(self.question(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
