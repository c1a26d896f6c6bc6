"""Commands that look at what is in storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from keel_lab.commands.options import AS_JSON, FORMAT, NAME, NAMES, STORAGE, open_root

if TYPE_CHECKING:
    from keel_lab.schedule.launch import Reporting


@click.command()
@NAME
@STORAGE
@AS_JSON
def status(name: str, storage: str | None, as_json: bool) -> None:
    """Show how far the stored sweep NAME is, cell by cell."""
    from keel_lab.schedule.status import describe_status

    click.echo(describe_status(name, open_root(storage), as_json=as_json))


@click.command()
@NAMES
@FORMAT
@click.option("--json", "as_json", is_flag=True, help="As --format json.")
@STORAGE
def report(names: Sequence[str], form: str, as_json: bool, storage: str | None) -> None:
    """Print the table of the stored sweeps NAME..., and draw their figures into the storage."""
    from keel_lab.composition import reporting

    form = "json" if as_json else form
    reporter = reporting(names, open_root(storage), form)
    click.echo(reporter.table(), nl=False)
    if form in ("text", "md"):
        _say_figures(reporter)


def _say_figures(reporter: Reporting) -> None:
    """Draws the figures; who may only read the storage still has the table."""
    from keel_lab.store.root import StorageError

    try:
        for figure in reporter.figures():
            click.echo(f"figure: {figure}", err=True)
    except StorageError as error:
        click.echo(f"no figures: {error}", err=True)
