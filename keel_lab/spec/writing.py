"""A resolved sweep as a sweep file again: YAML 1.2 that reads back as the very same data."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


def to_yaml(document: Mapping[str, Any]) -> str:
    """The document as YAML: a key a line, lists in one line, keys in their order."""
    from ruamel.yaml import YAML

    out = io.StringIO()
    yaml = YAML()
    yaml.width = 120
    yaml.dump(_laid_out(document), out)
    return out.getvalue()


def _laid_out(value: Any) -> Any:
    from ruamel.yaml.comments import CommentedSeq

    if isinstance(value, Mapping):
        return {str(key): _laid_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = CommentedSeq(map(_laid_out, value))
        items.fa.set_flow_style()
        return items
    return value
