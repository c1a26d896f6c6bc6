"""The arguments and options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keel_lab.commands.completion import sweep_names

if TYPE_CHECKING:
    from keel_lab.store.root import Root

FILE = click.argument("file", type=click.Path(path_type=Path))
OVERRIDES = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
NAME = click.argument("name", shell_complete=sweep_names)
NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=sweep_names)

STORAGE = click.option("--storage", metavar="URI", help="Storage root; else KEEL_LAB_STORAGE, else ./keel-lab-store.")
TRACKING = click.option("--tracking", metavar="URI|off", help="MLflow; else MLFLOW_TRACKING_URI, else SQLite.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SWEEP = click.option("--sweep", metavar="NAME", shell_complete=sweep_names, help="Look for TRIAL in this sweep only.")
FORMATS = click.Choice(["text", "md", "csv", "json", "tex"])
FORMAT = click.option("--format", "form", type=FORMATS, default="text", show_default=True, help="Of the report.")


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that trains."""
    for option in (
        TRACKING,
        click.option(
            "--max-failures", type=click.IntRange(1), metavar="N", help="Start no more after N failed trials."
        ),
        click.option("--fail-fast", is_flag=True, help="The same as --max-failures 1."),
        click.option(
            "--runtime-env", metavar="FILE", help="For the workers of a running Ray (YAML); else they get our own code."
        ),
        click.option("--ray-address", metavar="ADDRESS", help="A running Ray; else RAY_ADDRESS, else our own."),
        click.option(
            "--executor",
            type=click.Choice(["ray", "local"]),
            default="ray",
            show_default=True,
            help="local: in this process.",
        ),
        click.option(
            "--progress",
            type=click.Choice(["auto", "table", "lines", "line"]),
            default="auto",
            show_default=True,
            help="While it runs: a table of cells, a line an event, or one line in all.",
        ),
        FORMAT,
        STORAGE,
    ):
        command = option(command)
    return command


def open_root(storage: str | None) -> Root:
    """The storage root that `--storage` or the environment names."""
    from keel_lab.store.root import resolve_root

    return resolve_root(storage)
