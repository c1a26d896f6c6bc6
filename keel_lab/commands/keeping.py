"""Commands that keep the storage small."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from keel_lab.commands.options import AS_JSON, STORAGE, open_root

if TYPE_CHECKING:
    from keel_lab.store.cleaning import Keep


@click.command()
@click.option(
    "--keep",
    type=click.Choice(["none", "last", "best"]),
    default="last",
    show_default=True,
    help="last: keep each trial's last checkpoint, delete those for forks; best: that of each cell's best trial only; "
    "none: keep none.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@STORAGE
@AS_JSON
def gc(keep: Keep, dry_run: bool, storage: str | None, as_json: bool) -> None:
    """Delete checkpoints of finished trials, which only forks and later thresholds would use; results and curves stay.

    What needs one later trains again from the start, to the same numbers.
    """
    from keel_lab.store.cleaning import clean

    cleaned = clean(open_root(storage), keep, dry_run=dry_run)
    click.echo(json.dumps(cleaned.to_json(), indent=2) if as_json else cleaned.text())
