"""Commands that train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keel_lab.commands.options import FILE, NAME, OVERRIDES, open_root, run_options

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
    context.exit(_launch(open_sweep(file, overrides), root, options))


@click.command()
@NAME
@run_options
@click.pass_context
def resume(context: click.Context, /, name: str, **options: Any) -> None:
    """Go on with the stored sweep NAME: finished trials are not run again, stopped ones go on from their checkpoint."""
    from keel_lab.composition import reopen_sweep

    root = open_root(options["storage"])
    context.exit(_launch(reopen_sweep(name, root), root, options))


def _launch(opened: OpenedSweep, root: Root, options: dict[str, Any]) -> int:
    from keel_lab.composition import catalogue, reporting
    from keel_lab.schedule.launch import LaunchOptions, launch

    chosen = LaunchOptions(options["executor"], options["ray_address"], options["tracking"])
    return launch(opened, root, catalogue(), reporting([opened.spec.name], root, options["form"]), chosen)
