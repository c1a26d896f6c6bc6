"""Architectures with their options as a plan resolves them."""

from typing import Any

from keel_lab.spec.kind import of_option
from keel_lab.spec.rule import resolve
from trainers import architectures
from trainers.residual import Architecture


def options(name: str, blocks: int, **changes: Any) -> dict[str, Any]:
    """Every option of an architecture at its default, or as a sweep file's `changes` say."""
    known = architectures.find(name).DECLARATION.options
    assert changes.keys() <= known.keys()
    words = {key: of_option(option).convert(changes.get(key, option.default)) for key, option in known.items()}
    return {key: resolve(word, 2 * blocks) if known[key].kind == "rule" else word for key, word in words.items()}


def built(name: str, blocks: int, **changes: Any) -> Architecture:
    """The architecture with these options."""
    return architectures.find(name).build(blocks, options(name, blocks, **changes))
