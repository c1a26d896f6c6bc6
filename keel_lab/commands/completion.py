"""Completion of sweep names in a shell; it runs at every press of Tab, so it lists a folder and loads no sweep."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def sweep_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The stored sweeps whose names begin so; none if there is no storage, since a shell shows no error."""
    from keel_lab.errors import KeelLabError
    from keel_lab.store.root import resolve_root

    try:
        names = resolve_root(context.params.get("storage")).list("sweeps")
    except KeelLabError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
