"""Commands that train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keel_lab.commands.options import FILE, NAME, OVERRIDES, open_root, run_options
from keel_lab.errors import UsageError

if TYPE_CHECKING:
    from keel_lab.plan.opening import OpenedSweep
    from keel_lab.store.root import Root


@click.command()
@FILE
@OVERRIDES
@run_options
@click.pass_context
def run(context: click.Context, /, file: Path, overrides: tuple[str, ...], **options: Any) -> None:
    """Run the sweep in FILE and print its report; what is already in storage is not run again."""
    from keel_lab.composition import open_sweep

    root = open_root(options["storage"])
    context.exit(_launch(open_sweep(file, overrides, lambda: root), root, options))


@click.command()
@NAME
@run_options
@click.pass_context
def resume(context: click.Context, /, name: str, **options: Any) -> None:
    """Go on with the stored sweep NAME: finished trials are not run again, stopped ones go on from their checkpoint."""
    from keel_lab.composition import reopen_sweep

    root = open_root(options["storage"])
    context.exit(_launch(reopen_sweep(name, root), root, options))


@click.command()
@NAME
@click.argument("trials", nargs=-1, metavar="[TRIAL]...")
@click.option("--failed", is_flag=True, help="All failed trials; so it is if no TRIAL is named.")
@run_options
@click.pass_context
def retry(context: click.Context, /, name: str, trials: tuple[str, ...], failed: bool, **options: Any) -> None:
    """Forget the failed attempts of the sweep NAME, or of each TRIAL, and run these trials again.

    TRIAL is an id, the beginning of one, or a name such as keel-b16-s0.
    """
    from keel_lab.composition import reopen_sweep
    from keel_lab.schedule.retrying import to_retry

    if trials and failed:
        raise UsageError(f"retry {name}: found --failed beside {trials[0]}; name trials, or give --failed alone")
    root = open_root(options["storage"])
    chosen = to_retry(name, trials, root)
    if not chosen:
        click.echo(f"no trial of {name} has failed; keel-lab status {name} shows how far it is", err=True)
        return
    click.echo(f"again: {', '.join(planned.name for planned in chosen)}", err=True)
    again = frozenset(planned.trial.id for planned in chosen)
    context.exit(_launch(reopen_sweep(name, root), root, options, again))


def _launch(opened: OpenedSweep, root: Root, options: dict[str, Any], again: frozenset[str] | None = None) -> int:
    from keel_lab.composition import launch
    from keel_lab.schedule.launch import LaunchOptions

    most = 1 if options["fail_fast"] else options["max_failures"]
    chosen = LaunchOptions(
        options["executor"],
        options["ray_address"],
        options["tracking"],
        again,
        most,
        options["runtime_env"],
        options["progress"],
    )
    return launch(opened, root, chosen, options["form"], lambda table: click.echo(table, nl=False)).exit_code
