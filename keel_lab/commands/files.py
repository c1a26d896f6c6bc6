"""Commands that read a sweep file and run nothing."""

from __future__ import annotations

from pathlib import Path

import click

from keel_lab.commands.options import AS_JSON, FILE, OVERRIDES, STORAGE, open_root


@click.command()
@FILE
@OVERRIDES
@STORAGE
@AS_JSON
def plan(file: Path, overrides: tuple[str, ...], storage: str | None, as_json: bool) -> None:
    """Show what FILE would run: trials per cell, duplicates, what is already done, parameters, tokens, time."""
    from keel_lab.composition import open_sweep
    from keel_lab.plan.describe import describe_plan

    click.echo(describe_plan(open_sweep(file, overrides), open_root(storage), as_json=as_json))
