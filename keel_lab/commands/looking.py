"""Commands that look at what is in storage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from keel_lab.commands.completion import sweep_names
from keel_lab.commands.options import AS_JSON, FORMAT, NAMES, STORAGE, SWEEP, open_root
from keel_lab.errors import UsageError

if TYPE_CHECKING:
    from keel_lab.schedule.finishing import Reporting


@click.command()
@click.argument("name", required=False, shell_complete=sweep_names)
@click.option("--watch", is_flag=True, help="Follow it until it ends; with --json, an object a line and change.")
@STORAGE
@AS_JSON
@click.pass_context
def status(context: click.Context, /, name: str | None, watch: bool, storage: str | None, as_json: bool) -> None:
    """Show how far the stored sweep NAME is, cell by cell.

    With --watch it follows a sweep that runs in another terminal, and exits as the run does: 0 complete, 1 some trials
    failed, 3 incomplete.
    """
    if name is None:
        from keel_lab.store.sweeps import Sweeps

        raise UsageError(Sweeps(open_root(storage)).which())
    if watch:
        from keel_lab.schedule.watching import watch as follow

        context.exit(follow(name, open_root(storage), sys.stdout, as_json=as_json))
    from keel_lab.schedule.status import describe_status

    click.echo(describe_status(name, open_root(storage), as_json=as_json))


@click.command()
@click.argument("trial")
@SWEEP
@STORAGE
@AS_JSON
def logs(trial: str, sweep: str | None, storage: str | None, as_json: bool) -> None:
    """Print what TRIAL logged, and how its failed attempts ended.

    TRIAL is an id, the beginning of one, or a name such as keel-b16-s0 or SWEEP/keel-b16-s0.
    """
    from keel_lab.schedule.log_reading import describe_log
    from keel_lab.store.lookup import find_trial

    root = open_root(storage)
    click.echo(describe_log(find_trial(root, trial, sweep), root, as_json=as_json))


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
