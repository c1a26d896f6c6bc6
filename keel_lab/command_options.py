"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

STORAGE = click.option("--storage", metavar="URI", help="Storage root; else KEEL_LAB_STORAGE, else ./keel-lab-store.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
FORMATS = click.Choice(["text", "md", "csv", "json"])
FORMAT = click.option("--format", "form", type=FORMATS, default="text", show_default=True, help="Of the report.")


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that `run` and `resume` share."""
    for option in (
        click.option("--tracking", metavar="URI|off", help="MLflow; else MLFLOW_TRACKING_URI, else SQLite."),
        click.option("--ray-address", metavar="ADDRESS", help="A running Ray; else RAY_ADDRESS, else our own."),
        click.option(
            "--executor",
            type=click.Choice(["ray", "local"]),
            default="ray",
            show_default=True,
            help="local: in this process.",
        ),
        FORMAT,
        STORAGE,
    ):
        command = option(command)
    return command
